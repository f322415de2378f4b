"""Audits of one run: weights that no canary touches, coins before charges, and what is found."""

from __future__ import annotations

import json
import math
import stat

import numpy as np
import pytest
import torch
from audit.one_run_campaign import noise_times
from audit.one_run_specs import SAMPLERS, SMALL, small_spec
from audit.replaying import Tape, recording, replaying

from dppipe.audit.one_run import power
from dppipe.audit.one_run.canaries.reserved import ReservedCanaries
from dppipe.audit.one_run.coins import read_coins
from dppipe.audit.one_run.plan import read_audit_plan
from dppipe.audit.one_run.result import result_of
from dppipe.audit.one_run.training import audit_training, planned_audit
from dppipe.errors import PrivacyRefusal, UsageError
from dppipe.learners.records.loader import PrivateLoader
from dppipe.pipeline.run import run_spec
from dppipe.planning.privacy_plan import make_plan
from dppipe.randomness.gaussian import GaussianStream
from dppipe.runs.directory import RunDirectory
from dppipe.runs.ledger import Ledger
from dppipe.runs.verify import verify_ledger
from dppipe.spec import Spec


@pytest.fixture(autouse=True)
def few_simulated_canaries(monkeypatch):
    """The chance to find a fault needn't be exact here."""
    monkeypatch.setattr(power, "_POOL", 1000)


def weights(path):
    return torch.load(path / "checkpoints" / "final.ckpt", weights_only=True)


@pytest.mark.parametrize("clipping", ["flat", "adaptive"])
def test_weights_are_those_of_the_run_without_canaries_bit_by_bit(tmp_path, clipping):
    spec = small_spec(clipping={"kind": clipping})
    tape = Tape()
    with recording(tape):
        run_spec(spec, make_plan(spec), run_dir=tmp_path / "plain")
    with replaying(tape):
        audit_training(spec, number=40, run_dir=tmp_path / "audited", on_data=True)
    plain = weights(tmp_path / "plain")
    audited = weights(tmp_path / "audited")
    assert all(torch.equal(plain[name], audited[name]) for name in plain)
    ledgers = []
    for run in ("plain", "audited"):
        rows = (tmp_path / run / "ledger.jsonl").read_text().splitlines()
        ledgers.append([json.loads(row) | {"prev": "", "hash": ""} for row in rows])
    assert ledgers[0] == ledgers[1]


def test_without_noise_a_coordinate_is_the_bound_for_each_draw_of_a_canary_that_is_in(
    tmp_path, monkeypatch
):
    seen = []
    drawn = []
    usual = ReservedCanaries.watch
    usual_draw = PrivateLoader.draw_units

    def watched(self, step):
        seen.append(step.coordinates.numpy().copy())
        drawn.append(np.bincount(loaders[0].drawn_canaries, minlength=self.number))
        usual(self, step)

    loaders = []

    def draw_units(self, step):
        loaders[:] = [self]
        return usual_draw(self, step)

    monkeypatch.setattr(ReservedCanaries, "watch", watched)
    monkeypatch.setattr(PrivateLoader, "draw_units", draw_units)
    monkeypatch.setattr(GaussianStream, "add_", lambda self, flat, std, over=1.0: flat.div_(over))
    spec = small_spec(clipping={"kind": "flat", "max_grad_norm": 0.7})
    audit_training(spec, number=40, run_dir=tmp_path / "run")
    run = RunDirectory.open(tmp_path / "run")
    plan = read_audit_plan(run)
    present = read_coins(run, commitment=plan.commitment, number=40).present
    assert sum(map(np.sum, drawn)) > 0
    for coordinates, draws in zip(seen, drawn, strict=True):
        assert coordinates == pytest.approx(0.7 * present * draws, abs=1e-6)


@pytest.mark.parametrize("kind", SAMPLERS)
def test_every_sampler_draws_canaries_at_the_rate_of_real_units(kind):
    """At 6 sigma over 300 draws; the draws are seeded, so a test that passes always does."""
    from secret_streams import secret_stream

    spec = small_spec(**SAMPLERS[kind], train={"steps": 300})
    spec, plan, _ = planned_audit(spec, number=100, on_data=True)
    units = plan.records
    loader = PrivateLoader([0] * units, sampler=spec.sampler)
    loader.arm(plan, stream=secret_stream("sampler", seed=3), ranks=loader.ranks)
    loader.plant(100)
    real = np.zeros(units)
    planted = np.zeros(100)
    for step in range(1, 301):
        real[loader.draw_units(step)] += 1
        planted[loader.drawn_canaries] += 1
    rate = plan.sample_rate
    spread = 6 * math.sqrt(max(rate * (1 - rate), 1e-9) / (300 * 100))
    assert planted.mean() / 300 == pytest.approx(rate, abs=spread + 1e-2 * rate)
    assert real.mean() / 300 == pytest.approx(planted.mean() / 300, abs=2 * spread + 1e-9)
    if plan.epochwise:
        assert len({*real, *planted}) == 1  # each unit is used once in each epoch


QUICK = ("poisson", "shuffle", "without_replacement")
SLOWER = [pytest.param(kind, marks=pytest.mark.slow) for kind in SAMPLERS if kind not in QUICK]


@pytest.mark.parametrize("kind", [*QUICK, *SLOWER])
def test_a_run_of_every_sampler_is_audited_and_its_files_hold(tmp_path, kind):
    spec = small_spec(**SAMPLERS[kind])
    outcome, result = audit_training(spec, number=60, run_dir=tmp_path / "run")
    assert result.steps_seen == result.steps_charged == outcome.steps
    assert result.bounds.epsilon_lower <= result.bounds.ceiling
    assert result.bounds.epsilon_lower < result.claimed_epsilon  # 60 canaries can't show more
    assert result.claimed_epsilon == pytest.approx(outcome.epsilon, rel=1e-3)
    run = RunDirectory.open(tmp_path / "run")
    assert result_of(run) == result
    assert verify_ledger(run.path).intact
    said = json.loads(run.statement.with_suffix(".json").read_text())["audit"]
    assert "60 reserved canaries" in said
    assert "a lower bound, not a proof" in run.statement.read_text()


def test_scores_tell_canaries_that_are_in_from_others_in_every_relation(tmp_path):
    """Hardly any noise: each canary that is drawn shows, so all guesses are right.

    In 40 steps at rate 1/4 one of 50 canaries is never drawn in 1 of 2,000 runs: a false alarm at
    most.
    """
    for kind in ("poisson", "shuffle", "without_replacement"):
        spec = small_spec(**SAMPLERS[kind], train={"steps": 40})
        with noise_times(0.01):
            _, result = audit_training(spec, number=100, run_dir=tmp_path / kind)
        assert result.bounds.right == result.plan.guesses, kind
        assert result.rejected
        assert result.verdict.startswith("CLAIM REJECTED (p = ")


def test_laplace_noise_is_audited(tmp_path):
    spec = small_spec(
        noise={"kind": "constant", "mechanism": "laplace"},
        budget={"epsilon": 20.0, "delta": 1e-5},
    )
    _, result = audit_training(spec, number=40, run_dir=tmp_path / "run")
    assert 0 <= result.bounds.right <= result.plan.guesses


def test_plan_and_coins_are_durable_before_the_first_charge(tmp_path, monkeypatch):
    found = []
    usual = Ledger.charge

    def charge(self, *args, **kwargs):
        run = RunDirectory(tmp_path / "run")
        found.append((run.audit_plan.exists(), run.audit_coins.read_bytes()))
        return usual(self, *args, **kwargs)

    monkeypatch.setattr(Ledger, "charge", charge)
    audit_training(small_spec(), number=40, run_dir=tmp_path / "run")
    coins = tmp_path / "run" / "audit" / "coins.json"
    assert set(found) == {(True, coins.read_bytes())}
    assert stat.S_IMODE(coins.stat().st_mode) == 0o600


def test_other_coins_than_those_of_the_beginning_are_refused(tmp_path):
    audit_training(small_spec(), number=40, run_dir=tmp_path / "run")
    run = RunDirectory.open(tmp_path / "run")
    coins = json.loads(run.audit_coins.read_text())
    turned = coins["coins"].translate({48: 49, 49: 48})
    run.audit_coins.write_text(json.dumps(coins | {"coins": turned}))
    with pytest.raises(PrivacyRefusal, match="never drawn twice"):
        result_of(run)
    run.audit_coins.unlink()
    with pytest.raises(PrivacyRefusal, match="never drawn twice"):
        result_of(run)


def test_damaged_files_are_named(tmp_path):
    audit_training(small_spec(), number=4, run_dir=tmp_path / "run")
    run = RunDirectory.open(tmp_path / "run")
    damages = ("", "[]", '{"steps": 1}', '{"steps": 12, "scores": [1.0]}')
    for damage in damages:
        run.audit_scores.write_text(damage)
        with pytest.raises(UsageError, match=r"scores\.json: expected the scores of 4 canaries"):
            result_of(run)
    for damage in damages:
        run.audit_plan.write_text(damage)
        with pytest.raises(UsageError, match=r"plan\.json: expected"):
            result_of(run)


@pytest.mark.parametrize(
    ("blocks", "kind", "said"),
    [
        ({"reproducible": True}, "reserved", "reproducible: expected false"),
        ({"budget": "none"}, "reserved", "budget: expected a certified claim"),
        ({"performance": {"devices": 2}}, "reserved", "performance: expected one process"),
        (
            {"sampler": {"kind": "truncated_poisson", "expected_batch_size": 50}},
            "reserved",
            "sampler: expected one of .* got 'truncated_poisson'",
        ),
        ({"clipping": "microbatch"}, "inputs", "clipping: expected a clipper of single examples"),
        (SAMPLERS["without_replacement"], "inputs", "budget.relation: expected zero_out"),
    ],
)
def test_what_cannot_be_audited_is_refused_by_name(tmp_path, blocks, kind, said):
    with pytest.raises((UsageError, PrivacyRefusal), match=said):
        audit_training(small_spec(**blocks), kind=kind, number=20, run_dir=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_learner_without_steps_is_refused(tmp_path):
    data = {
        name: block
        for name, block in SMALL.items()
        if name in ("version", "name", "data", "budget")
    }
    spec = Spec.from_data(data | {"learner": {"kind": "mean", "max_norm": 1.0}})
    with pytest.raises(
        UsageError, match="learner: expected dp_sgd in an audit of one run, got 'mean'"
    ):
        audit_training(spec, number=20, run_dir=tmp_path / "run")


def test_input_canaries_are_scored_from_inside_and_from_outside(tmp_path):
    _, result = audit_training(small_spec(), kind="inputs", number=20, run_dir=tmp_path / "run")
    assert result.black_box is not None
    run = RunDirectory.open(tmp_path / "run")
    assert result_of(run) == result
    assert "mislabelled" in run.statement.read_text()
    assert json.loads(run.summary.read_text())["kind"] == "audit"


@pytest.mark.slow
def test_an_input_canary_that_isnt_clipped_is_found_from_inside(tmp_path, monkeypatch):
    """Each canary that is in adds its clipped gradient a hundred times: all guesses are right."""
    from dppipe.audit.one_run.canaries.inputs import InputCanaries
    from dppipe.learners.records.reading import PhysicalBatch

    usual = InputCanaries.rows

    def many_times(self, drawn):
        rows = usual(self, drawn)
        return None if rows is None else PhysicalBatch(rows.parts * 100)

    monkeypatch.setattr(InputCanaries, "rows", many_times)
    spec = small_spec(
        data={"kind": "synthetic", "size": 250, "features": 40},
        sampler={"kind": "poisson", "sample_rate": 0.5, "expected_batch_size": 100},
    )
    _, result = audit_training(spec, kind="inputs", number=30, run_dir=tmp_path / "run")
    assert result.bounds.right >= result.plan.guesses - 1
