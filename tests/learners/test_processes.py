"""Several processes as one: the same model, one ledger, noise once, and no hang on empty shares or dead ranks."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
import torch.multiprocessing as mp
from torch import nn
from torch.utils.data import TensorDataset
from typer.testing import CliRunner

from dppipe.cli.app import app

TWO = ["train.devices=2", "train.accelerator=cpu"]


def dppipe(tmp_path, name, *changes, wait=True):
    """Run the small spec in processes of its own."""
    words = [
        sys.executable,
        "-m",
        "dppipe",
        "run",
        str(tmp_path / "spec.yaml"),
        "--run-dir",
        str(tmp_path / name),
    ]
    words += [word for change in changes for word in ("--set", change)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        words,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
        start_new_session=True,
    )
    if wait:
        output, _ = process.communicate(timeout=180)
        assert process.returncode == 0, output
        return output
    return process


def test_two_processes_give_the_same_model_and_one_ledger(run, tmp_path):
    one = run("reproducible=true")
    output = dppipe(tmp_path, "two", "reproducible=true", *TWO)
    weights = torch.load(tmp_path / "two" / "checkpoints" / "final.ckpt", weights_only=True)
    for name, value in one.weights().items():
        torch.testing.assert_close(weights[name], value, rtol=0, atol=1e-5)
    assert len((tmp_path / "two" / "ledger.jsonl").read_text().splitlines()) == 10
    assert output.count("ended") == 1, output
    assert "terminate" not in output


PROJECTED = [
    "data={kind: digits, holdout: public, features: {kind: pca, components: 6, max_norm: 4.0, "
    "noise_multiplier: 3.0}}",
    "reproducible=true",
]


@pytest.mark.slow
def test_two_processes_project_by_one_release_and_give_the_model_of_one(run, tmp_path):
    """Where the second process had other inputs, its share of every gradient would differ."""
    one = run(*PROJECTED)
    dppipe(tmp_path, "two", *PROJECTED, *TWO)
    weights = torch.load(tmp_path / "two" / "checkpoints" / "final.ckpt", weights_only=True)
    for name, value in one.weights().items():
        torch.testing.assert_close(weights[name], value, rtol=0, atol=1e-5)
    rows = (tmp_path / "two" / "ledger.jsonl").read_text().splitlines()
    assert [json.loads(row).get("what") for row in rows[:2]] == ["projection", None]


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["the first", "another"])
def test_a_killed_rank_ends_the_run_with_its_charges_kept(run, tmp_path, victim):
    """`dppipe resume` then goes on, here with one process."""
    process = dppipe(tmp_path, "two", "train.steps=600", "budget.epsilon=1000", *TWO, wait=False)
    ledger = tmp_path / "two" / "ledger.jsonl"
    deadline = time.monotonic() + 120
    while not ledger.exists() or ledger.read_bytes().count(b"\n") < 10:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(process.pid if victim == "the first" else int(children[0]), signal.SIGKILL)
    output, _ = process.communicate(timeout=120)  # the pipe is closed when both have ended
    assert process.returncode == (-signal.SIGKILL if victim == "the first" else 1), output
    assert "lost one" in output
    assert "internal error" not in output
    charged = len(ledger.read_text().splitlines())
    assert charged >= 10
    if victim != "the first":
        summary = json.loads((tmp_path / "two" / "summary.json").read_text())
        assert (summary["status"], summary["charged"]) == ("failed", charged)
    config = tmp_path / "two" / "config.yaml"
    config.write_text(config.read_text().replace("devices: 2", "devices: 1"))
    done = CliRunner().invoke(app, ["resume", str(config.parent), "--accept-changes"])
    assert done.exit_code == 0, done.output
    assert json.loads((tmp_path / "two" / "summary.json").read_text())["charged"] == 600


@pytest.mark.slow
@pytest.mark.parametrize("receiver", ["the first", "another"])
def test_a_signal_to_any_rank_leaves_a_run_that_goes_on(run, tmp_path, receiver):
    process = dppipe(tmp_path, "two", "train.steps=200", "budget.epsilon=1000", *TWO, wait=False)
    ledger = tmp_path / "two" / "ledger.jsonl"
    deadline = time.monotonic() + 120
    while not ledger.exists() or ledger.read_bytes().count(b"\n") < 10:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(process.pid if receiver == "the first" else int(children[0]), signal.SIGTERM)
    output, _ = process.communicate(timeout=120)
    summary = json.loads((tmp_path / "two" / "summary.json").read_text())
    assert summary["status"] == "interrupted", output
    assert summary["charged"] == summary["steps"] < 200
    go_on(tmp_path / "two", devices=1)
    assert json.loads((tmp_path / "two" / "summary.json").read_text())["steps"] == 200


def go_on(path, *, devices):
    """Resume a run with another number of processes."""
    config = path / "config.yaml"
    written = re.sub(r"devices: \d+", f"devices: {devices}", config.read_text())
    config.write_text(re.sub(r"accelerator: \w+", "accelerator: cpu", written))
    words = [sys.executable, "-m", "dppipe", "resume", str(path)]
    process = subprocess.Popen(
        [*words, "--accept-changes", "--original-is-gone"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=180)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # ranks that wait for each other
        raise
    assert process.returncode == 0, output


@pytest.mark.slow
def test_two_processes_go_on_to_the_model_of_one_where_rate_and_bound_move(
    run, tmp_path, monkeypatch
):
    from dppipe.runs.record import RunRecord

    finish = RunRecord.step

    def then_stop(record, **facts):
        finish(record, **facts)
        if record.ledger.rows == 6:
            os.kill(os.getpid(), signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(RunRecord, "step", then_stop)
        stopped = run(
            "reproducible=true",
            "sampler={kind: poisson, sample_rate: 0.05, batch_schedule: {kind: linear, end: 8}}",
            "clipping={kind: flat, bound_schedule: {kind: exponential, end: 0.05}}",
            "budget.epsilon=1000",
        )
    assert stopped.exit_code == 130, stopped.output
    one, two = (shutil.copytree(stopped.path, tmp_path / name) for name in ("one", "two"))
    shutil.rmtree(stopped.path)
    weights = []
    for devices, path in enumerate((one, two), start=1):
        go_on(path, devices=devices)
        weights.append(torch.load(path / "checkpoints" / "final.ckpt", weights_only=True))
    torch.testing.assert_close(weights[1], weights[0], rtol=0, atol=1e-5)


def zero_loss(model, batch):
    return model(batch[0]).sum(1) * 0


def one_rank(rank: int, world: int, folder: str) -> None:
    """Take one private step of zero gradients on each rank; what comes out is the noise alone."""
    import torch.distributed as dist
    from private_steps import private_step

    from dppipe.clipping import Flat
    from dppipe.engine import Engine
    from dppipe.learners.ranks import Ranks
    from dppipe.learners.records.loader import LogicalBatch, PrivateLoader
    from dppipe.noise import Constant
    from dppipe.planning.privacy_plan import PrivateParts, plan_privacy
    from dppipe.privacy.accountants.rdp import Rdp
    from dppipe.privacy.budget import Budget
    from dppipe.randomness.gaussian import GaussianStream
    from dppipe.randomness.keystream import Keystream
    from dppipe.randomness.streams import stream_key
    from dppipe.runs.follower import NoLedger
    from dppipe.runs.ledger import Ledger
    from dppipe.sampling import Poisson

    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=world
    )
    ranks = Ranks(rank, world)
    parts = PrivateParts(
        Poisson(sample_rate=0.3),
        Flat(),
        Constant(noise_multiplier=1.5),
        Rdp(),
        Budget(epsilon=1e6, delta=1e-5),
    )
    plan = plan_privacy(parts, name="t", records=3, steps=5)
    loader = PrivateLoader(TensorDataset(torch.zeros(3, 2), torch.zeros(3)), sampler=parts.sampler)
    loader.arm(plan, stream=Keystream(ranks.agree(stream_key("sampler"))), ranks=ranks)
    engine = Engine(nn.Linear(2, 20_000), zero_loss, parts.clipping)
    ledger = (
        Ledger.create(f"{folder}/ledger.jsonl", plan=plan.to_json()) if ranks.first else NoLedger()
    )
    step = private_step(
        parts, "zero_out", plan, engine, ledger, GaussianStream(stream_key("noise")), {}, ranks
    )
    for number in range(5):
        given = step(LogicalBatch(loader), place=lambda piece: piece)
        torch.save(
            torch.cat([value.flatten() for value in given.values()]), f"{folder}/{rank}-{number}.pt"
        )
    dist.destroy_process_group()


def test_noise_is_added_once_whatever_the_number_of_ranks(tmp_path):
    """Five steps on two ranks, most shares empty; variance within 5 sigma of one noise: a false alarm in 1.7 million."""
    mp.spawn(one_rank, args=(2, str(tmp_path)), nprocs=2)
    for number in range(5):
        mine, other = (torch.load(tmp_path / f"{rank}-{number}.pt").double() for rank in (0, 1))
        assert torch.equal(mine, other)
        variance = float((mine * 0.9 / 1.5).square().mean())
        assert abs(variance - 1) < 5 * math.sqrt(2 / mine.numel())
    assert len((tmp_path / "ledger.jsonl").read_text().splitlines()) == 5


@pytest.mark.parametrize("world", [1, 2, 3, 7])
def test_shares_are_disjoint_and_make_up_the_draw(world):
    import numpy

    from dppipe.learners.ranks import Ranks

    drawn = numpy.array([5, 1, 9, 2, 8])
    shares = [Ranks(rank, world).share(drawn) for rank in range(world)]
    assert sorted(numpy.concatenate(shares)) == sorted(drawn)


def drawn_in_a_fit(monkeypatch, *, records: int = 200) -> list[list[int]]:
    """Fit a small module without a seed, and return the records of each step."""
    import pytorch_lightning as pl

    import dppipe
    from dppipe.clipping import Flat
    from dppipe.noise import Constant
    from dppipe.privacy.accountants.rdp import Rdp
    from dppipe.sampling import Poisson

    drawn = []
    draw = Poisson.draw

    def recorded(self, *args, **options):
        found = draw(self, *args, **options)
        drawn.append(found.tolist())
        return found

    class Mine(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(2, 2)

        def training_step(self, batch, batch_idx):
            return nn.functional.cross_entropy(self.layer(batch[0]), batch[1])

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    with monkeypatch.context() as patch:
        patch.setattr(Poisson, "draw", recorded)
        private = dppipe.DPCallback(
            sampler=Poisson(sample_rate=0.3),
            clipping=Flat(),
            noise=Constant(noise_multiplier=1.0),
            accountant=Rdp(),
            budget=dppipe.Budget(epsilon=100, delta=1e-5),
        )
        data = TensorDataset(torch.randn(records, 2), torch.randint(2, (records,)))
        quiet = {"logger": False, "enable_progress_bar": False, "enable_checkpointing": False}
        trainer = pl.Trainer(max_steps=3, accelerator="cpu", callbacks=[private], **quiet)
        trainer.fit(Mine(), private.loader(data))
    return drawn


def test_the_sampler_draws_from_the_key_that_all_ranks_agree_on(monkeypatch, tmp_path):
    """Each rank makes a key up; were it to keep its own, a batch would be no single draw."""
    from dppipe.learners.ranks import Ranks

    monkeypatch.chdir(tmp_path)
    assert drawn_in_a_fit(monkeypatch) != drawn_in_a_fit(monkeypatch)
    agree = Ranks.agree

    def agree_on_zeros(self, value):
        return (
            bytes(len(value))
            if isinstance(value, bytes) and len(value) == 32
            else agree(self, value)
        )

    monkeypatch.setattr(Ranks, "agree", agree_on_zeros)
    assert drawn_in_a_fit(monkeypatch) == drawn_in_a_fit(monkeypatch)
