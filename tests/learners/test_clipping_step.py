"""The private step with clippers that adapt, average or change coordinates: what is noised, with what, and what is charged."""

from __future__ import annotations

import json
import math
import os
import signal
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy
import pytest
import torch
from private_steps import private_step
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from dppipe.clipper_abilities import first_state
from dppipe.clipping import AdaClip, Adaptive, Clipper, Flat, Global, Jl, Microbatch
from dppipe.engine import Engine
from dppipe.errors import PrivacyRefusal
from dppipe.learners.ranks import Ranks
from dppipe.learners.records.loader import LogicalBatch, PrivateLoader
from dppipe.learners.records.whole_units import split_by_unit
from dppipe.learners.sgd.step import PrivateStep
from dppipe.noise import Constant
from dppipe.noise.base import NoiseSchedule
from dppipe.planning.privacy_plan import PrivateParts, plan_privacy
from dppipe.privacy.accountants.pld import Pld
from dppipe.privacy.accountants.rdp import Rdp
from dppipe.privacy.budget import Budget
from dppipe.randomness.gaussian import GaussianStream
from dppipe.randomness.streams import stream_key
from dppipe.runs.ledger import Ledger
from dppipe.sampling import FullBatch, Poisson

WIDTH = 20_000


class Weights(nn.Module):
    """Parameters in parts of equal size, each a layer of its own."""

    def __init__(self, width: int, parts: int) -> None:
        super().__init__()
        for part in range(parts):
            self.register_parameter(f"part{part}", nn.Parameter(torch.zeros(width // parts)))


def inner_product(model: nn.Module, batch: list[Tensor]) -> Tensor:
    """Each record is its own gradient."""
    return batch[0] @ torch.cat(list(model.parameters()))


class Silent:
    """Noise that isn't there."""

    def add_(self, flat, std, *, over=1.0):
        return flat.div_(over)


def make_step(
    tmp_path,
    clipping,
    gradients,
    *,
    z=1.0,
    rate=None,
    relation="zero_out",
    silent=False,
    physical=7,
    parts=1,
    seed=3,
) -> tuple[PrivateStep, LogicalBatch]:
    """Make a step on these gradients; the sampler takes them all unless there is a rate."""
    sampler = FullBatch() if rate is None else Poisson(sample_rate=rate)
    budget = Budget(epsilon=1e6, delta=1e-6, relation=relation)
    private = PrivateParts(sampler, clipping, Constant(noise_multiplier=z), Rdp(), budget)
    plan = plan_privacy(private, name="t", records=len(gradients), steps=400)
    loader = PrivateLoader(TensorDataset(gradients), sampler=sampler)
    loader.physical_batch_size = physical
    loader.arm(plan, stream=numpy.random.default_rng(seed), ranks=Ranks())
    engine = Engine(Weights(gradients.shape[1], parts), inner_product, clipping)
    ledger = Ledger.create(
        tmp_path / f"ledger{len(list(tmp_path.iterdir()))}.jsonl", plan=plan.to_json()
    )
    noise, count = (
        (Silent(), Silent())
        if silent
        else (GaussianStream(stream_key("noise")), GaussianStream(stream_key("count")))
    )
    state = first_state(clipping, engine.groups.sizes)
    return private_step(
        private, relation, plan, engine, ledger, noise, state, count_noise=count
    ), LogicalBatch(loader)


def here(piece: Any) -> Any:
    return piece


def rows(step: PrivateStep) -> list[dict[str, Any]]:
    return [json.loads(line) for line in step.gate.ledger.path.read_text().splitlines()]


def test_a_step_is_clipped_with_the_old_bound_and_the_next_with_the_new(tmp_path):
    step, batch = make_step(
        tmp_path, Adaptive(max_grad_norm=2.0), torch.full((20, 4), 5.0), z=0.5, silent=True
    )
    first = step(batch, place=here)["part0"]
    assert float(first.norm()) == pytest.approx(2.0)
    assert step.shown["max_grad_norm"] == rows(step)[0]["max_grad_norm"] == 2.0
    (bound,) = step.clipper_state["bounds"]
    assert bound == pytest.approx(2.0 * math.exp(0.2 * 0.5))  # none of them is within it
    assert float(step(batch, place=here)["part0"].norm()) == pytest.approx(bound)
    assert rows(step)[1]["max_grad_norm"] == pytest.approx(bound)


def test_the_accounted_multiplier_is_charged_and_the_gradient_gets_more_noise(tmp_path):
    """Variance within 5 sigma of the split's: a false alarm in 1.7 million. The variance is 4/3 here."""
    clipping = Adaptive(unclipped_num_std=1.0)
    step, batch = make_step(tmp_path, clipping, torch.zeros(10, WIDTH), z=1.0)
    noise = step(batch, place=here)["part0"].double() * 10
    assert rows(step)[0]["noise_multiplier"] == 1.0
    assert rows(step)[0]["event"]["noise_multiplier"] == 1.0
    assert float(noise.square().mean()) / (4 / 3) == pytest.approx(1, abs=5 * math.sqrt(2 / WIDTH))


class Watched(Adaptive):
    """Keeps its bounds and tells what was released."""

    def update(self, state: Any, released: Mapping[str, Any]) -> Any:
        return {"bounds": state["bounds"], "seen": (*state.get("seen", ()), released["means"])}


@pytest.mark.parametrize("parts", [1, 4])
def test_the_count_is_recentred_and_noised_with_its_own_standard_deviation(tmp_path, parts):
    """200 counts of 20 examples within the bound: mean and variance within 5 sigma, false alarms in about 600,000."""
    clipping = Watched(unclipped_num_std=6.0, grouping="layerwise")
    step, batch = make_step(tmp_path, clipping, torch.full((20, 4), 0.1), parts=parts)
    for _ in range(200):
        step(batch, place=here)
    seen = torch.tensor(step.clipper_state["seen"], dtype=torch.float64) * 20
    assert seen.shape == (200, parts)
    std = 6.0 * math.sqrt(parts)
    assert float(seen.mean()) == pytest.approx(20 / 2, abs=5 * std / math.sqrt(seen.numel()))
    assert float(seen.var()) / std**2 == pytest.approx(1, abs=5 * math.sqrt(2 / seen.numel()))


@pytest.mark.parametrize(
    "clipping",
    [
        Adaptive(),
        Adaptive(grouping="layerwise"),
        Global(variant="adaptive"),
        AdaClip(),
        Microbatch(size=3),
    ],
    ids=lambda clipping: clipping.kind,
)
def test_pieces_change_neither_the_gradient_nor_the_state(tmp_path, clipping):
    generator = torch.Generator().manual_seed(1)
    gradients = torch.randn(40, 5, generator=generator) * 3
    found = []
    for physical in (1, 7, 1000):
        step, batch = make_step(
            tmp_path, clipping, gradients, z=0.5, silent=True, physical=physical, rate=0.5
        )
        found.append(
            [[step(batch, place=here)["part0"] for _ in range(5)], dict(step.clipper_state)]
        )
    torch.testing.assert_close(found[0], found[1])
    torch.testing.assert_close(found[1], found[2])


def test_an_empty_batch_is_an_ordinary_release_of_all_its_parts(tmp_path):
    step, batch = make_step(tmp_path, Watched(unclipped_num_std=5.0), torch.ones(40, 5), rate=1e-9)
    gradient = step(batch, place=here)["part0"]
    assert bool((gradient != 0).all())
    assert step.clipper_state["seen"][0][0] != 0
    assert len(rows(step)) == 1


@pytest.mark.parametrize(("relation", "unit"), [("zero_out", 2.0), ("replace_one", 1.0)])
def test_averages_get_noise_for_twice_the_bound(tmp_path, relation, unit):
    """Under replace_one the accountant doubles the sensitivity itself. Variance within 5 sigma: a false alarm in 1.7 million."""
    step, batch = make_step(
        tmp_path, Microbatch(size=4), torch.zeros(16, WIDTH), z=1.5, relation=relation
    )
    noise = step(batch, place=here)["part0"].double() * 16 / 4  # a mean over 16/4 averages
    assert float(noise.square().mean()) / (1.5 * unit) ** 2 == pytest.approx(
        1, abs=5 * math.sqrt(2 / WIDTH)
    )
    assert rows(step)[0]["max_grad_norm"] == 1.0


def test_averages_of_small_gradients_are_their_mean(tmp_path):
    gradients = torch.arange(32.0)[:, None].expand(32, 2) / 1000
    step, batch = make_step(tmp_path, Microbatch(size=1), gradients, silent=True)
    slots = Microbatch(size=1).slots(numpy.arange(32), expected_batch_size=32)
    wanted = sum(gradients[slots == slot].mean(0) for slot in set(slots.tolist())) / 32
    torch.testing.assert_close(step(batch, place=here)["part0"], wanted)


@pytest.mark.parametrize("size", [1, 5, 100])
@pytest.mark.parametrize("world", [1, 3])
def test_slots_stay_whole_and_every_record_stands_in_one_piece_of_one_rank(size, world):
    drawn = numpy.random.default_rng(0).permutation(200)[:90]
    clipper = Microbatch(size=4)

    def slots(indices):
        return clipper.slots(indices, expected_batch_size=80)

    seen, homes = [], {}
    for rank in range(world):
        for number, (indices, slot) in enumerate(
            split_by_unit(drawn, slots, size=size, ranks=Ranks(rank, world))
        ):
            assert (slots(indices) == slot).all()
            assert len(indices) <= size or len(set(slot.tolist())) == 1
            seen += indices.tolist()
            for each in set(slot.tolist()):
                assert homes.setdefault(each, (rank, number)) == (rank, number)
    assert sorted(seen) == sorted(drawn.tolist())


def test_adaclip_learns_where_gradients_vary_and_puts_less_noise_elsewhere(tmp_path):
    generator = torch.Generator().manual_seed(1)
    spread = torch.cat([torch.full((5,), 1.0), torch.full((45,), 0.01)])
    gradients = torch.randn(400, 50, generator=generator) * spread
    step, batch = make_step(tmp_path, AdaClip(max_grad_norm=3.0), gradients, z=0.5, rate=0.5)
    for _ in range(60):
        step(batch, place=here)
    scale = step.parts.clipping.at(step.clipper_state).scale["part0"]
    assert float(scale[:5].mean()) > 1.5 * float(scale[5:].mean())


# Plans.


def plan(
    clipping: Clipper,
    *,
    budget: Budget | None = None,
    z: float | str = 1.0,
    accountant=None,
    records=2000,
    steps=50,
):
    sampler = Poisson(sample_rate=0.05)
    parts = PrivateParts(
        sampler,
        clipping,
        Constant(noise_multiplier=z),
        accountant or Rdp(),
        budget or Budget(epsilon=8.0, delta=1e-5),
    )
    return plan_privacy(parts, name="t", records=records, steps=steps)


@pytest.mark.parametrize(
    "clipping",
    [
        Adaptive(),
        Adaptive(grouping="layerwise"),
        Global(variant="adaptive"),
        AdaClip(),
        Microbatch(),
    ],
)
def test_epsilon_is_that_of_a_flat_run_at_the_same_multiplier(clipping):
    ours, flat = plan(clipping), plan(Flat())
    assert (ours.epsilon, ours.curve, ours.noise) == (flat.epsilon, flat.curve, flat.noise)
    assert ours.gradient_multiplier(1) >= flat.gradient_multiplier(1) == 1.0


def test_a_count_that_leaves_no_noise_for_the_gradient_is_refused_when_planning():
    assert plan(Adaptive(), z=9.9).gradient_multiplier(9.9) > 9.9  # 2 * 100 / 20 is the limit
    with pytest.raises(PrivacyRefusal, match=r"unclipped_num_std: expected more than 5\.05"):
        plan(Adaptive(), z=10.1, steps=5)


def test_statistics_of_averages_are_refused():
    class Both(Adaptive):
        averages = True

        def slots(self, indices, *, expected_batch_size):
            return indices // 2

    with pytest.raises(PrivacyRefusal, match="averages"):
        plan(Both())


@pytest.mark.parametrize("accountant", [Rdp(), Pld()], ids=lambda accountant: accountant.kind)
def test_delta_that_is_set_aside_is_paid_for(accountant):
    paying = plan(Jl(delta=4e-6), accountant=accountant)
    whole = plan(Flat(), accountant=accountant, budget=Budget(epsilon=8.0, delta=6e-6))
    assert paying.epsilon == pytest.approx(whole.epsilon, rel=1e-6)
    assert paying.delta == 1e-5
    assert paying.failure_delta == 4e-6
    assert all(delta > 4e-6 for delta in paying.whole_curve["deltas"])
    with pytest.raises(PrivacyRefusal, match="of which it is a part"):
        plan(Jl(delta=1e-5), accountant=accountant)
    with pytest.raises(PrivacyRefusal, match=r"clipping\.delta: expected at least"):
        plan(Jl(delta=4e-6, projections=20), accountant=accountant)
    with pytest.raises(PrivacyRefusal, match="paid for"):
        plan(Jl(), accountant=accountant)


def test_delta_can_not_be_set_aside_where_a_filter_or_a_scope_has_all_of_it():
    class Follows(NoiseSchedule):
        adaptive = True

        def multiplier(self, progress: float) -> float:
            return 1.0

    budget, sampler = Budget(epsilon=8.0, delta=1e-5), Poisson(sample_rate=0.05)
    parts = PrivateParts(sampler, Jl(delta=1e-6), Follows(noise_multiplier=1.0), Rdp(), budget)
    with pytest.raises(PrivacyRefusal, match="can't fail with the schedule"):
        plan_privacy(parts, name="t", records=2000, steps=50)
    with pytest.raises(PrivacyRefusal, match="can't fail with a shared budget"):
        plan(Jl(delta=1e-6), budget=budget.model_copy(update={"scope": "clinic"}))
    parts = PrivateParts(sampler, Adaptive(), Follows(noise_multiplier=1.0), Rdp(), budget)
    assert plan_privacy(parts, name="t", records=2000, steps=50).statistics_std == 5.0


# Whole runs.


def scalars(path) -> dict[str, list[float]]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    curves = EventAccumulator(str(path), size_guidance={"scalars": 0})
    curves.Reload()
    return {tag: [point.value for point in curves.Scalars(tag)] for tag in curves.Tags()["scalars"]}


def test_the_bound_is_in_the_ledger_the_curves_the_checkpoint_and_the_statement(run):
    done = run(
        "clipping={kind: adaptive, max_grad_norm: 50}", "train.steps=12", "train.checkpoint_every=5"
    )
    assert done.exit_code == 0, done.output
    bounds = [row["max_grad_norm"] for row in done.rows]
    assert bounds[0] == 50.0
    assert bounds[-1] < 0.5 * bounds[0]
    assert scalars(done.path)["privacy/max_grad_norm"] == pytest.approx(bounds, rel=1e-6)
    saved = torch.load(done.path / "checkpoints" / "last.ckpt", weights_only=True)
    (state,) = [
        value["clipper_state"] for value in saved["callbacks"].values() if "clipper_state" in value
    ]
    assert 0 < state["bounds"][0] < bounds[-1] * 1.2
    executed = json.loads((done.path / "privacy.json").read_text())["executed"]["max_grad_norm"]
    assert executed == [min(bounds), max(bounds)]
    flat = run("train.steps=12")
    assert flat.summary["epsilon"] == done.summary["epsilon"]


def test_a_resumed_run_goes_on_with_the_bound_it_had(run, monkeypatch):
    from typer.testing import CliRunner

    from dppipe.cli.app import app
    from dppipe.runs.record import RunRecord

    finish = RunRecord.step

    def then_signal(record, **facts):
        finish(record, **facts)
        if record.ledger.rows == 20:
            os.kill(os.getpid(), signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(RunRecord, "step", then_signal)
        done = run("clipping={kind: adaptive, max_grad_norm: 1000}", "train.steps=22")
    assert done.exit_code == 130, done.output
    assert CliRunner().invoke(app, ["resume", str(done.path)]).exit_code == 0
    bounds = [row["max_grad_norm"] for row in done.rows]
    assert len(bounds) == 22
    moved = [later / earlier for earlier, later in pairwise(bounds)]
    assert (
        max(moved) / min(moved) < 1.2
    )  # each step moves it by a tenth or so, and none back to the first


@pytest.mark.parametrize("kind", ["adaptive", "layerwise", "global"])
@pytest.mark.parametrize("start", [100.0, 0.01])
def test_the_step_brings_a_bound_that_is_a_hundred_times_off_to_the_median_within_150_steps(
    tmp_path, start, kind
):
    """Norms are lognormal about 1. The bound, or the threshold, ends within 0.15 of the median's place; its spread there is
    about 0.02.
    """
    clipping = {
        "adaptive": Adaptive(max_grad_norm=start),
        "layerwise": Adaptive(max_grad_norm=start, grouping="layerwise"),
        "global": Global(variant="adaptive", threshold=start, target_unclipped_quantile=0.5),
    }[kind]
    generator = torch.Generator().manual_seed(0)
    directions = nn.functional.normalize(torch.randn(1000, 8, generator=generator), dim=1)
    gradients = directions * torch.randn(1000, 1, generator=generator).exp()
    step, batch = make_step(tmp_path, clipping, gradients, rate=0.25, physical=500)
    for _ in range(150):
        step(batch, place=here)
    state = step.clipper_state
    limit = state["threshold"] if kind == "global" else state["bounds"][0]
    share = float((gradients.norm(dim=1) <= limit).float().mean())
    assert share == pytest.approx(0.5, abs=0.15)


@pytest.mark.parametrize(
    "clipping",
    [
        "{kind: adaptive, grouping: layerwise}",
        "{kind: global, variant: adaptive}",
        "global",
        "automatic",
        "psac",
        "{kind: layerwise, shares: parameters}",
        '{kind: grouped, max_grad_norms: {"*.bias": 0.1, "*": 1.0}}',
        "adaclip",
        "microbatch",
        "{kind: jl, delta: 1.0e-6}",
    ],
)
def test_every_clipper_runs_and_its_ledger_verifies(run, clipping):
    from dppipe.runs.verify import verify_ledger

    done = run(f"clipping={clipping}", "train.steps=3", "model={kind: mlp, hidden: [4]}")
    assert done.exit_code == 0, done.output
    assert verify_ledger(done.path).intact


@pytest.mark.parametrize(
    ("clipping", "planned", "stated"),
    [
        ("flat", "clipping          flat, max_grad_norm 1\n", "was clipped (flat);"),
        ("microbatch", "noise is scaled to twice the bound", "noise is scaled to twice the bound"),
        (
            "adaptive",
            "the gradient's own multiplier is",
            "Noisy counts of unclipped ones were released too",
        ),
        (
            "{kind: jl, delta: 1.0e-6}",
            "of which 1e-06 pays for bounds that may fail",
            "1e-06 of delta pays for bounds that may fail",
        ),
    ],
)
def test_plan_and_statement_say_what_is_particular_about_a_clipper(run, clipping, planned, stated):
    from dppipe.cli.plan import plan_text
    from dppipe.planning.step_plan import StepPlan

    done = run(f"clipping={clipping}", "train.steps=2")
    assert done.exit_code == 0, done.output
    text = plan_text(StepPlan.model_validate_json((done.path / "plan.json").read_text()))
    assert " ".join(planned.split()) in " ".join(text.split())
    assert stated in (done.path / "privacy.md").read_text()


def test_diagnostics_are_marked_and_named_in_the_statement(run):
    done = run("diagnostics=nonprivate", "train.steps=4")
    assert done.exit_code == 0, done.output
    shown = {
        tag: values for tag, values in scalars(done.path).items() if tag.startswith("nonprivate/")
    }
    wanted = {
        "signal_to_noise",
        "broken_records",
        "clipped_fraction",
        "grad_norm_p10",
        "grad_norm_p50",
        "grad_norm_p90",
    }
    assert set(shown) == {f"nonprivate/{name}" for name in wanted}
    assert all(len(values) == 4 for values in shown.values())
    assert all(0 <= share <= 1 for share in shown["nonprivate/clipped_fraction"])
    low, middle, high = (shown[f"nonprivate/grad_norm_{name}"] for name in ("p10", "p50", "p90"))
    assert all(0 < a <= b <= c for a, b, c in zip(low, middle, high, strict=True))
    assert "Training diagnostics were recorded" in (done.path / "privacy.md").read_text()


def test_without_diagnostics_nothing_of_them_is_computed(run, monkeypatch):
    from dppipe.learners.sgd.diagnostics import ClippingDiagnostics

    monkeypatch.setattr(
        ClippingDiagnostics, "__init__", lambda self: pytest.fail("diagnostics are off")
    )
    done = run("train.steps=2")
    assert done.exit_code == 0, done.output
    assert not [tag for tag in scalars(done.path) if tag.startswith("nonprivate/")]
    assert "No training diagnostics" in (done.path / "privacy.md").read_text()
