"""The mean of the weights: what is validated and saved, kept apart from what training goes on from, and taken up again."""

from __future__ import annotations

import json
import os
import signal

import pytest
import torch
from torch import nn
from typer.testing import CliRunner

import dppipe
from dppipe.cli.app import app
from dppipe.lightning.averages import WeightAverage
from dppipe.optim.averaging import Ema, Polyak
from dppipe.runs.record import RunRecord
from dppipe.spec.load import load_spec


def trained(average: WeightAverage, network: nn.Module, *, updates: int) -> list[torch.Tensor]:
    seen = []
    for update in range(1, updates + 1):
        with torch.no_grad():
            network.weight += torch.randn_like(network.weight)
        average.add(update)
        seen.append(network.weight.detach().clone())
    return seen


@pytest.mark.parametrize(
    ("averaging", "shares"),
    [(Polyak(start=0.5), [0, 0, 0, 1 / 3, 1 / 3, 1 / 3]), (Ema(decay=0.5), None)],
)
def test_the_mean_is_the_one_that_was_asked_for(averaging, shares) -> None:
    network = nn.Linear(3, 2, bias=False)
    average = WeightAverage(network, averaging, steps=6)
    seen = trained(average, network, updates=6)
    shares = shares or [2.0**t / 63 for t in range(6)]
    torch.testing.assert_close(
        average.means["weight"],
        sum(share * weight for share, weight in zip(shares, seen, strict=True)),
    )


def test_weights_come_back_after_a_look_at_the_mean() -> None:
    network = nn.Linear(3, 2)
    average = WeightAverage(network, Polyak(start=0.0), steps=4)
    before = trained(average, network, updates=4)[-1]
    mean = average.means["weight"].clone()
    with average.in_place():
        assert torch.equal(network.weight, mean)
        with average.in_place():
            assert torch.equal(network.weight, mean)
    assert torch.equal(network.weight, before)
    assert torch.equal(average.means["weight"], mean)


def test_before_the_first_update_there_is_nothing_to_average() -> None:
    network = nn.Linear(2, 2)
    before = network.weight.detach().clone()
    average = WeightAverage(network, Polyak(), steps=4)
    with average.in_place():
        assert torch.equal(network.weight, before)


def test_a_frozen_weight_has_no_mean() -> None:
    network = nn.Linear(2, 2)
    network.bias.requires_grad_(False)
    average = WeightAverage(network, Ema(), steps=2)
    average.add(1)
    assert set(average.means) == {"weight"}


AVERAGED = [
    "reproducible=true",
    "optimizer={kind: sgd, lr: 0.5, averaging: {kind: polyak, start: 0.0}}",
]


def test_the_final_model_is_the_mean_and_training_is_unchanged(run) -> None:
    plain, averaged = (
        run("reproducible=true", "train.checkpoint_every=1"),
        run(*AVERAGED, "train.checkpoint_every=1"),
    )
    assert averaged.exit_code == 0, averaged.output
    held = torch.load(averaged.path / "checkpoints" / "last.ckpt", weights_only=True)
    mean = held["callbacks"]["DPCallback"]["average"]
    last = {
        name: value for name, value in held["state_dict"].items() if name.startswith("network.")
    }
    for name, value in averaged.weights().items():
        assert torch.equal(value, mean[name])
        assert torch.equal(last[f"network.{name}"], plain.weights()[name])
        assert not torch.equal(value, plain.weights()[name])


def test_what_is_validated_is_the_mean(run) -> None:
    """The score of the last validation is that of the final model, and not that of the weights that training stopped at."""
    averaged = run(*AVERAGED, "train.validate_every=10", "optimizer.lr=20")
    val = load_spec(averaged.path / "config.yaml").data.splits(seed=7).val
    inputs, targets = val.tensors
    final = dppipe.load_model(averaged.path)
    score = float((final(inputs).argmax(1) == targets).float().mean())
    assert averaged.summary["metrics"]["val/accuracy"] == pytest.approx(score)
    last = torch.load(averaged.path / "checkpoints" / "last.ckpt", weights_only=True)["state_dict"]
    final.load_state_dict({name: last[f"network.{name}"] for name in final.state_dict()})
    assert float((final(inputs).argmax(1) == targets).float().mean()) != pytest.approx(score)


def test_an_interrupted_run_goes_on_with_its_mean(run, monkeypatch) -> None:
    """The mean over all updates, before and after: without what the checkpoint holds, it would lack the first ones."""
    step = RunRecord.step

    def then_signal(record, **facts):
        step(record, **facts)
        if record.ledger.step == 6:
            os.kill(os.getpid(), signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(RunRecord, "step", then_signal)
        stopped = run(*AVERAGED)
    assert stopped.exit_code == 130, stopped.output
    held = torch.load(stopped.path / "checkpoints" / "last.ckpt", weights_only=True)["callbacks"][
        "DPCallback"
    ]
    assert held["steps"] == 6
    after: list[torch.Tensor] = []
    add = WeightAverage.add

    def noting(average, update):
        after.append(average._weights["1.weight"].detach().clone())
        add(average, update)

    monkeypatch.setattr(WeightAverage, "add", noting)
    done = CliRunner().invoke(app, ["resume", str(stopped.path)])
    assert done.exit_code == 0, done.output
    assert json.loads((stopped.path / "summary.json").read_text())["steps"] == 10
    assert len(after) == 4
    whole = (6 * held["average"]["1.weight"] + sum(after)) / 10
    torch.testing.assert_close(stopped.weights()["1.weight"], whole)


@pytest.mark.parametrize("averaging", ["null", "polyak", "ema"])
def test_copies_of_all_weights_that_a_run_leaves_are_known_as_its_own(
    run, tmp_path, averaging
) -> None:
    """The final model, the weights that training stopped at, and the mean in the checkpoint."""
    first = run(f"optimizer={{kind: sgd, lr: 0.5, averaging: {averaging}}}")
    assert first.exit_code == 0, first.output
    held = torch.load(first.path / "checkpoints" / "last.ckpt", weights_only=True)
    last = {name.removeprefix("network."): value for name, value in held["state_dict"].items()}
    mean = held["callbacks"]["DPCallback"].get("average", last)
    for number, weights in enumerate([first.weights(), last, mean]):
        copy = tmp_path / f"copy{number}.ckpt"
        torch.save({name: weights[name].clone() for name in first.weights()}, copy)
        second = run(f"model={{kind: logistic, pretrained: {copy}}}", "budget.epsilon=100")
        assert second.exit_code == 0, second.output
        assert second.summary["epsilon"] > first.summary["epsilon"], "both runs are paid for"
