"""Laplace noise: gradients are bounded in their L1 norms, and the noise has the scale that is charged."""

from __future__ import annotations

import math

import dp_accounting
import pytest
import torch
from private_steps import private_step
from torch import nn
from torch.utils.data import TensorDataset

from dppipe.clipper_abilities import first_state
from dppipe.clipping import Adaptive, Automatic, Clipper, Flat, Layerwise, Microbatch
from dppipe.engine import Engine, check_engine
from dppipe.errors import PrivacyRefusal
from dppipe.learners.ranks import Ranks
from dppipe.learners.records.loader import LogicalBatch, PrivateLoader
from dppipe.learners.sgd.sensitivity import noise_unit
from dppipe.noise import Constant, Linear
from dppipe.planning.privacy_plan import PrivateParts, plan_privacy
from dppipe.privacy.accountants import Advanced, Basic, Gdp, Pld, Rdp, Tcdp, Zcdp
from dppipe.privacy.budget import Budget
from dppipe.privacy.support import ACCOUNTANTS, SAMPLERS, verdict
from dppipe.randomness.keystream import Keystream
from dppipe.randomness.laplace import LaplaceStream
from dppipe.randomness.streams import stream_key
from dppipe.runs.ledger import Ledger
from dppipe.sampling import FullBatch, Poisson, Shuffle

KINDS = {
    "pld": Pld,
    "rdp": Rdp,
    "tcdp": Tcdp,
    "zcdp": Zcdp,
    "gdp": Gdp,
    "advanced": Advanced,
    "basic": Basic,
}


def loss(model: nn.Module, batch: list[torch.Tensor]) -> torch.Tensor:
    x, y = batch
    return model(x).sum(1) * y


class Silent:
    def add_(self, flat, std, *, over=1.0):
        return flat.div_(over)


def step(tmp_path, *, clipping=None, noise=None, scale=1.0, width=4, z=1.5, records=30):
    budget = Budget(epsilon=1e6, delta=1e-5)
    schedule = Constant(noise_multiplier=z, mechanism="laplace")
    parts = PrivateParts(
        FullBatch(), clipping or Flat(max_grad_norm=2.0), schedule, Basic(), budget
    )
    plan = plan_privacy(parts, name="t", records=records, steps=5)
    generator = torch.Generator().manual_seed(0)
    dataset = TensorDataset(
        torch.randn(records, 3, generator=generator) * scale,
        torch.randn(records, generator=generator),
    )
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, width))
    loader = PrivateLoader(dataset, sampler=parts.sampler)
    loader.physical_batch_size = 7
    loader.arm(plan, stream=Keystream(stream_key("sampler")), ranks=Ranks())
    engine = Engine(model, loss, parts.clipping, order=1)
    ledger = Ledger.create(tmp_path / "ledger.jsonl", plan=plan.to_json())
    stream = noise or LaplaceStream(stream_key("noise"))
    state = first_state(parts.clipping, engine.groups.sizes)
    return (
        private_step(parts, "zero_out", plan, engine, ledger, stream, state),
        LogicalBatch(loader),
        dataset,
        model,
    )


def test_each_example_counts_for_at_most_the_bound_in_the_l1_norm(tmp_path):
    private, batch, dataset, model = step(tmp_path, noise=Silent())
    given = private(batch, place=lambda piece: piece)
    model = model.double()
    total = [torch.zeros_like(p) for p in model.parameters()]
    for i in range(30):
        x, y = (tensor[i : i + 1].double() for tensor in dataset.tensors)
        gradients = torch.autograd.grad(loss(model, [x, y]).sum(), list(model.parameters()))
        size = sum(float(g.abs().sum()) for g in gradients)
        for t, g in zip(total, gradients, strict=True):
            t += g * min(1.0, 2.0 / size)
    for got, want in zip(given.values(), total, strict=True):
        torch.testing.assert_close(got.double() * 30, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "clipping",
    [Flat(max_grad_norm=2.0), Layerwise(max_grad_norm=2.0), Automatic(max_grad_norm=2.0)],
    ids=lambda c: c.kind,
)
def test_one_record_moves_the_sum_by_at_most_the_noises_unit(tmp_path, clipping):
    private, batch, dataset, _ = step(tmp_path, noise=Silent(), clipping=clipping, scale=1e6)
    with_record = private(batch, place=lambda piece: piece)
    dataset.tensors[1][5] = 0.0
    without = private(batch, place=lambda piece: piece)
    change = 30 * sum(
        float((a - b).abs().sum())
        for a, b in zip(with_record.values(), without.values(), strict=True)
    )
    assert 0 < change <= private.shown["max_grad_norm"] * (1 + 1e-5)


@pytest.mark.parametrize("relation", ["zero_out", "add_remove", "replace_one"])
def test_the_noises_unit_is_the_sum_of_the_bounds_of_all_groups(relation):
    """One example can move every group by its whole bound: L1 norms add up, where Euclidean ones would make 3 of these."""
    assert noise_unit(Layerwise(), (1.0, 2.0, 2.0), relation, order=1) == pytest.approx(5.0)
    assert noise_unit(Layerwise(), (1.0, 2.0, 2.0), relation, order=2) == pytest.approx(3.0)


def test_the_noise_of_a_step_is_scaled_to_the_sum_of_all_bounds(tmp_path):
    asked = []

    class Asked(Silent):
        def add_(self, flat, std, *, over=1.0):
            asked.append(std)
            return super().add_(flat, std, over=over)

    private, batch, *_ = step(tmp_path, noise=Asked(), clipping=Layerwise(max_grad_norm=2.0))
    private(batch, place=lambda piece: piece)
    bounds = private._bounds(1)
    assert len(bounds) > 1
    assert asked == [pytest.approx(1.5 * sum(bounds))]


def test_the_noise_has_the_scale_that_is_charged(tmp_path):
    """Zero gradients leave the noise alone; its mean size within 5 standard errors: a false alarm in 1.7 million."""
    private, batch, dataset, _ = step(tmp_path, width=50_000)
    dataset.tensors[1].zero_()
    given = (
        torch.cat(
            [value.flatten() for value in private(batch, place=lambda piece: piece).values()]
        ).double()
        * 30
    )
    assert abs(float(given.abs().mean()) / 3.0 - 1) < 5 / math.sqrt(given.numel())
    assert abs(float(given.square().mean()) / 18.0 - 1) < 5 * math.sqrt(5 / given.numel())


def test_the_engines_check_knows_the_norm():
    engine = Engine(nn.Linear(3, 2), loss, Flat(), order=1)
    check_engine(engine, [torch.randn(4, 3), torch.randn(4)])


def planned(
    sampler,
    accountant,
    *,
    clipping: Clipper | None = None,
    relation="zero_out",
    noise=None,
    steps=10,
):
    budget = Budget(epsilon=1e3, delta=1e-5, relation=relation)
    schedule = noise or Constant(noise_multiplier=5.0, mechanism="laplace")
    parts = PrivateParts(sampler, clipping or Flat(), schedule, accountant, budget)
    return plan_privacy(parts, name="t", records=1000, steps=steps)


def test_basic_composition_is_pure():
    plan = planned(FullBatch(), Basic())
    assert plan.epsilon == pytest.approx(10 / 5)
    assert all(epsilon == pytest.approx(2.0) for epsilon in plan.whole_curve["epsilons"])
    assert planned(FullBatch(), Basic(), relation="replace_one").epsilon == pytest.approx(4.0)


def test_pld_agrees_with_dp_accounting():
    accountant = dp_accounting.pld.PLDAccountant(value_discretization_interval=1e-4)
    event = dp_accounting.PoissonSampledDpEvent(0.1, dp_accounting.LaplaceDpEvent(5.0))
    accountant.compose(dp_accounting.SelfComposedDpEvent(event, 10))
    assert planned(Poisson(sample_rate=0.1), Pld()).epsilon == pytest.approx(
        accountant.get_epsilon(1e-5), abs=2e-3
    )


SAMPLED = {
    "poisson": Poisson(sample_rate=0.1),
    "shuffle": Shuffle(expected_batch_size=100),
    "full_batch": FullBatch(),
}


@pytest.mark.parametrize("relation", ["zero_out", "replace_one"])
@pytest.mark.parametrize("accountant", ACCOUNTANTS)
@pytest.mark.parametrize("sampler", sorted(SAMPLED))
def test_what_is_proven_is_planned_and_the_rest_refused(sampler, accountant, relation):
    found = verdict(sampler=sampler, relation=relation, accountant=accountant, mechanism="laplace")
    if found.status == "certified":
        assert planned(SAMPLED[sampler], KINDS[accountant](), relation=relation).certified
    else:
        assert found.instead
        with pytest.raises(PrivacyRefusal):
            planned(SAMPLED[sampler], KINDS[accountant](), relation=relation)


def test_samplers_without_a_theorem_for_it_are_refused():
    for sampler in set(SAMPLERS) - {*SAMPLED, "user"}:
        found = verdict(
            sampler=sampler, relation="replace_one", accountant="pld", mechanism="laplace"
        )
        assert found.status == "refused"


@pytest.mark.parametrize("clipping", [Adaptive(), Microbatch()], ids=lambda c: c.kind)
def test_clippers_whose_bounds_are_euclidean_are_refused(clipping):
    with pytest.raises(PrivacyRefusal, match="Laplace"):
        planned(FullBatch(), Basic(), clipping=clipping)


def test_secure_noise_is_gaussian_only():
    with pytest.raises(PrivacyRefusal, match=r"noise\.mechanism"):
        planned(
            FullBatch(),
            Basic(),
            noise=Constant(noise_multiplier=5.0, mechanism="laplace", secure=True),
        )


def test_a_schedule_moves_laplace_noise_too():
    plan = planned(
        FullBatch(), Basic(), noise=Linear(noise_multiplier=5.0, end=0.5, mechanism="laplace")
    )
    assert plan.epsilon == pytest.approx(sum(1 / (5 * (1 - 0.5 * t / 9)) for t in range(10)))


def test_a_run_with_laplace_noise_is_charged_as_such(run):
    done = run(
        "sampler=full_batch",
        "noise={kind: constant, noise_multiplier: auto, mechanism: laplace}",
        "accountant=basic",
    )
    assert done.exit_code == 0, done.output
    assert {row["mechanism"] for row in done.rows} == {"laplace"}
    assert done.summary["epsilon"] == pytest.approx(8.0, abs=1e-3)
    assert done.rows[0]["event"]["type"] == "LaplaceDpEvent"
    assert "Laplace" in (done.path / "privacy.md").read_text()


def test_an_unproven_pair_is_refused_at_validation(run):
    done = run("noise.mechanism=laplace", "accountant=rdp")
    assert done.exit_code == 3
    assert "pld" in done.output
