"""The curve that a run has committed to: its plan's, also where the run ended early."""

from __future__ import annotations

import pytest
from written_runs import write_run

from dppipe.clipping.flat import Flat
from dppipe.errors import UsageError
from dppipe.noise.constant import Constant
from dppipe.noise.linear import Linear
from dppipe.planning.privacy_plan import PrivateParts, plan_privacy
from dppipe.privacy.accountants.pld import Pld
from dppipe.privacy.budget import Budget
from dppipe.runs.directory import RunDirectory
from dppipe.runs.verification.certificate import certificate_of_run
from dppipe.sampling.poisson import Poisson
from dppipe.sampling.shuffle import Shuffle
from dppipe.sampling.without_replacement import WithoutReplacement

BUDGET = Budget(epsilon=40.0, delta=1e-5)
CASES = {
    "constant": (Poisson(sample_rate=0.1), Constant(noise_multiplier=1.0), "zero_out"),
    "schedule": (Poisson(sample_rate=0.1), Linear(noise_multiplier=1.0, end=2.0), "zero_out"),
    "fixed size": (
        WithoutReplacement(expected_batch_size=100),
        Constant(noise_multiplier=1.0),
        "replace_one",
    ),
    "epochs": (Shuffle(expected_batch_size=250), Constant(noise_multiplier=1.0), "zero_out"),
}


@pytest.mark.parametrize("charged", [12, 3])
@pytest.mark.parametrize("case", CASES)
def test_the_certificate_of_a_run_is_that_of_its_whole_plan(tmp_path, case, charged):
    sampler, noise, relation = CASES[case]
    budget = BUDGET.model_copy(update={"relation": relation})
    parts = PrivateParts(sampler, Flat(), noise, Pld(), budget)
    plan = plan_privacy(parts, name="test", records=1000, steps=12)
    write_run(tmp_path / "run", parts, plan, charged=charged)
    found = certificate_of_run(RunDirectory.open(tmp_path / "run"))
    assert found.certified
    assert found.epsilon(1e-5) == pytest.approx(plan.epsilon, rel=1e-4)
    planned = Pld().compose(parts.committed(plan), relation=relation)
    assert found.delta(1.0) == pytest.approx(planned.delta(1.0), rel=1e-3)


def test_a_run_without_a_budget_has_no_certificate(tmp_path):
    sampler, noise, _ = CASES["constant"]
    parts = PrivateParts(sampler, Flat(), noise, Pld(), None)
    plan = plan_privacy(parts, name="test", records=1000, steps=12)
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "plan.json").write_bytes(plan.to_json())
    with pytest.raises(UsageError, match="claims nothing"):
        certificate_of_run(RunDirectory.open(folder))
