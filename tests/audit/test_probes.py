"""Probes of releases: correct code is not rejected, and each planted fault is, by the probe meant for it.

Statistical probes have a level; each test of correct code compares with a p-value of 1e-9, so that
the whole file raises a false alarm less than once in ten million runs.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from dppipe.audit.counts import TwoWorlds
from dppipe.audit.probes.audit_spec import audit
from dppipe.audit.probes.fit import probe_fit
from dppipe.audit.probes.influence import TOLERANCE, measure_influence
from dppipe.audit.probes.noise import probe_noise
from dppipe.audit.probes.sampler_counts import probe_sampler
from dppipe.audit.probes.subject import make_subject
from dppipe.audit.probes.threshold_tests import (
    contradicted,
    count_worlds,
    detection_rate,
    draws_for,
    normal_cells,
    p_value,
)
from dppipe.audit.probes.transcript import probe_transcript
from dppipe.errors import PrivacyRefusal, UsageError
from dppipe.planning.privacy_plan import make_plan
from dppipe.privacy.gaussian import GaussianCurve
from dppipe.privacy.tradeoff.blow_up import blow_up_of
from dppipe.spec import load_spec
from tests.audit import campaign_faults as faults

SPEC = Path(__file__).with_name("campaign_spec.yaml")
LEAST = 1e-9
"""The p-value below which a test of correct code fails."""
ADAPTIVE = "clipping={kind: adaptive, max_grad_norm: 1.0}"


def subject_of(*overrides):
    spec = load_spec(SPEC, overrides=list(overrides))
    return make_subject(spec, make_plan(spec))


def noise_of(subject, *, kept=None, seconds=10.0):
    influence = measure_influence(subject)
    keep = (lambda one: None) if kept is None else kept.append
    found = probe_noise(
        subject, influence, seconds=seconds, progress=lambda draws: None, keep_counts=keep
    )
    return influence, found


def nothing(draws: int) -> None:
    """Take no note of progress."""


OPTIONS = {
    "flat": (),
    "layerwise": ("clipping={kind: layerwise, max_grad_norm: 1.0}",),
    "adaptive": (ADAPTIVE,),
    "adaclip": ("clipping={kind: adaclip}",),
    "global": ("clipping={kind: global, max_grad_norm: 1.0}",),
    "microbatch": ("clipping={kind: microbatch}",),
    "replace_one": ("budget.relation=replace_one", "budget.epsilon=100"),
    "laplace": ("noise.mechanism=laplace", "budget.epsilon=1000"),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_no_canary_moves_a_sum_of_correct_code_by_more_than_its_bound(name):
    result = measure_influence(subject_of(*OPTIONS[name])).result
    assert not result.rejected
    assert result.ratio <= 1 + TOLERANCE
    assert result.ratio > 0.4  # and the canaries come near it


@pytest.mark.parametrize("layer", faults.TENSORS)
def test_a_layer_that_is_not_clipped_is_found_without_statistics(layer):
    with faults.unclipped(layer)(0):
        result = measure_influence(subject_of()).result
    assert result.rejected
    assert result.p_value == 0


def test_a_bound_on_the_mean_of_a_batch_is_found():
    with faults.bound_on_the_mean(0):
        result = measure_influence(subject_of()).result
    assert result.ratio > 2


def test_a_pair_of_canaries_reaches_nearly_twice_the_bound_under_replace_one():
    result = measure_influence(subject_of(*OPTIONS["replace_one"])).result
    assert result.numbers["sensitivity"] == pytest.approx(2.0)
    assert result.ratio > 0.9


def test_correct_noise_is_not_rejected_and_a_tenth_of_it_is():
    influence, right = noise_of(subject_of())
    assert influence.result.ratio == pytest.approx(1.0, abs=1e-3)
    assert right.p_value > LEAST
    assert right.power > 0.9
    with faults.noise_divided(10):
        _, wrong = noise_of(subject_of())
    assert wrong.p_value < 1e-9
    assert wrong.ratio > 0.5


@pytest.mark.parametrize(
    "fault",
    [faults.noise_halved, faults.noise_missing_on_one_tensor, faults.noise_reused_between_steps],
)
def test_noise_that_is_not_what_its_name_says_is_found_by_the_fit(fault):
    subject = subject_of()
    assert probe_fit(subject, [], progress=nothing).p_value > LEAST
    for number in range(4):  # tensors take turns
        with fault(number):
            assert probe_fit(subject, [], progress=nothing).p_value < 1e-5


def test_count_noise_that_is_too_small_is_found():
    p_values = []
    for fault in (faults.none, faults.count_noise_halved):
        with fault(0):
            subject = subject_of(ADAPTIVE)
            counts = []
            noise_of(subject, kept=counts)
            p_values.append(probe_fit(subject, counts, progress=nothing).p_value)
    assert p_values[0] > LEAST
    assert p_values[1] < 1e-9


def test_sampler_faults_are_found_by_counting():
    subject = subject_of()
    assert probe_sampler(subject, seconds=5, progress=nothing).p_value > LEAST
    with faults.shuffled_batches(0):
        assert probe_sampler(subject, seconds=5, progress=nothing).p_value < 1e-6
    with faults.one_record_more_often(4):
        assert probe_sampler(subject, seconds=5, progress=nothing).p_value < 1e-6


@pytest.mark.slow
def test_whole_epochs_at_a_probe_noise_tell_shuffled_from_poisson_batches():
    subject = subject_of()
    influence = measure_influence(subject)
    right = probe_transcript(subject, influence, seconds=300, progress=nothing)
    assert right.p_value > LEAST
    assert right.power > 0.9
    found = []
    with faults.shuffled_batches(0):
        for _ in range(3):  # each misses it with probability 0.005
            found.append(probe_transcript(subject, influence, seconds=300, progress=nothing))
    assert any(one.rejected for one in found)


@pytest.mark.parametrize("multiplier", [0.5, 1.0, 2.8332, 5.0])
def test_so_many_draws_find_noise_of_half_the_size(multiplier):
    claim = blow_up_of(GaussianCurve(mu=1 / multiplier))
    thresholds = 1 / multiplier / 2 + np.array([-1.0, -0.5, 0.0, 0.5, 1.0])
    rates = {}
    for std in (0.5, 1.0):
        out = normal_cells(thresholds, mean=0.0, std=std)
        in_ = normal_cells(thresholds, mean=1 / multiplier, std=std)
        rates[std] = detection_rate(out, in_, claim, draws=draws_for(multiplier), error=0.01)
    assert rates[0.5] >= 0.98
    assert rates[1.0] <= 0.01  # of 200 simulated audits, whose seed is fixed


def test_many_audits_at_once_are_judged_as_each_alone():
    generator = np.random.default_rng(5)
    claim = blow_up_of(GaussianCurve(mu=1.0))
    with_ = generator.integers(0, 101, size=(60, 3))
    without = generator.integers(0, 101, size=(60, 3))
    together = contradicted(with_, without, claim, draws=100, error=0.02)
    for row in range(60):
        alone = any(
            TwoWorlds(int(a), 100, int(b), 100).contradicts(claim, error=0.02 / 3)
            for a, b in zip(with_[row], without[row], strict=True)
        )
        assert together[row] == alone


def test_a_p_value_is_the_smallest_level_that_rejects():
    claim = blow_up_of(GaussianCurve(mu=0.5))
    worlds = count_worlds(np.zeros(200), np.ones(200), np.array([0.5]))
    found = p_value(worlds, claim)
    assert 0 < found < 1e-6
    assert worlds[0].contradicts(claim, error=found * 1.001)
    assert not worlds[0].contradicts(claim, error=found / 1.01)
    assert p_value(count_worlds(np.zeros(9), np.zeros(9), np.array([0.5])), claim) == 1.0


def test_an_audit_reads_no_record_and_refuses_what_claims_nothing(monkeypatch):
    from dppipe.data.synthetic import Synthetic

    def refused(self):
        raise AssertionError("a record was read")

    monkeypatch.setattr(Synthetic, "load", refused)
    report = audit(load_spec(SPEC), transcript=False)
    assert report.p_value > LEAST
    assert [probe.probe for probe in report.probes] == ["influence", "noise", "fit", "sampler"]
    assert "private" not in report.verdict
    with pytest.raises(UsageError, match="budget"):
        audit(load_spec(SPEC, overrides=["budget=none"]))
    with pytest.raises(PrivacyRefusal, match="reproducible"):
        audit(load_spec(SPEC, overrides=["reproducible=true"]))
    json.dumps([dict(probe.numbers) for probe in report.probes])


def test_an_audit_at_given_weights_uses_them():
    spec = load_spec(SPEC)
    subject = make_subject(spec, make_plan(spec))
    zeros = {name: value.detach() * 0 for name, value in subject.network.state_dict().items()}
    changed = make_subject(spec, make_plan(spec), weights=zeros)
    assert all(not value.any() for value in changed.network.state_dict().values())
