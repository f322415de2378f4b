"""Learners with a fault each: `dppipe plugins check` names it."""

from __future__ import annotations

import textwrap
from collections.abc import Callable

import pytest
from learners.plugin_runs import NEAREST

from dppipe.plugin_kit.checking import CheckedKind
from dppipe.plugin_kit.starters.learner import PLUGIN

pytestmark = pytest.mark.sampled(3)

Check = Callable[[str], CheckedKind]

GOOD = '''\
import random

from dppipe import Field, Learner, Release
from dppipe.component import AutoFloat
from dppipe.privacy.events.mechanisms import exponential, gaussian, laplace

KEPT = []


class Mine(Learner, kind="mine"):
    """Two noisy sums."""

    noise_multiplier: AutoFloat = Field("auto", gt=0)

    def releases(self, facts, *, scale):
        return [Release(what=what, event=gaussian(scale)) for what in ("first", "second")]

    def module(self, facts):
        import torch

        module = torch.nn.Module()
        module.register_buffer("mean", torch.zeros(facts.input_shape))
        return module

    def value(self, unit):
        return unit.inputs.mean(0)

    def fit(self, job, gate):
        for _ in range(2):
            shape = job.facts.input_shape
            total = gate.sum_units(gate.next(), self.value, shape=shape, bound=1.0)
        job.module.mean.copy_(total)
        return job.module
'''

FAULTS: dict[str, tuple[str, str, str]] = {
    "random_releases": (
        "def releases(self, facts, *, scale): "
        "return [Release(what='first', event=gaussian(scale + random.random()))]",
        "releases follow from options",
        "got others when asked again",
    ),
    "torch_to_plan": (
        "def releases(self, facts, *, scale):\n"
        "    import torch\n"
        "    return [Release(what='first', event=gaussian(float(torch.tensor(scale))))]",
        "releases follow from options",
        "expected releases() to do without torch",
    ),
    "no_release": (
        "def releases(self, facts, *, scale): return []",
        "releases follow from options",
        "expected at least one release",
    ),
    "claims_a_sample": (
        "def releases(self, facts, *, scale):\n"
        "    from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent\n"
        "    return [Release(what='a', event=PoissonSampledDpEvent(0.1, GaussianDpEvent(scale)))]",
        "releases follow from options",
        "got PoissonSampledDpEvent",
    ),
    "free_release": (
        "def releases(self, facts, *, scale): "
        "return [Release(what='first', event=gaussian(scale), count=0)]",
        "releases follow from options",
        "charged at least once",
    ),
    "less_noise": (
        "def releases(self, facts, *, scale): "
        "return [Release(what='first', event=gaussian(1 / scale))]",
        "more noise never costs more",
        "expected a lower epsilon at a larger scale",
    ),
    "scale_unused": (
        "def releases(self, facts, *, scale): "
        "return [Release(what='first', event=gaussian(1.0)) for _ in range(2)]",
        "more noise never costs more",
        "expected the scale to change what the releases cost",
    ),
    "needs_the_count": (
        "def fit(self, job, gate):\n"
        "    for _ in range(2):\n"
        "        total = gate.sum_units(gate.next(), self.value, shape=job.facts.input_shape, bound=1.0)\n"
        "    job.module.mean.copy_(total / job.facts.records)\n"
        "    return job.module",
        "where the number of records is secret",
        "got TypeError from fit, after a charge",
    ),
    "too_few": (
        "def fit(self, job, gate):\n"
        "    gate.sum_units(gate.next(), self.value, shape=job.facts.input_shape, bound=1.0)\n"
        "    return job.module",
        "it fits made-up records",
        "expected the planned releases first, second, got first from fit",
    ),
    "too_many": (
        "def fit(self, job, gate):\n"
        "    for _ in range(3):\n"
        "        gate.sum_units(gate.next(), self.value, shape=job.facts.input_shape, bound=1.0)\n"
        "    return job.module",
        "it fits made-up records",
        "got None from next()",
    ),
    "reads_outside": (
        "def fit(self, job, gate):\n"
        "    try:\n"
        "        job.module.mean.copy_(next(job.records.units()).inputs[0])\n"
        "    except Exception:\n"
        "        pass\n"
        "    for _ in range(2):\n"
        "        gate.sum_units(gate.next(), self.value, shape=job.facts.input_shape, bound=1.0)\n"
        "    return job.module",
        "it reads records inside the gate",
        "got a read of job.records",
    ),
    "running_total": (
        "def fit(self, job, gate):\n"
        "    seen = []\n"
        "    def value(unit):\n"
        "        seen.append(unit.inputs.mean(0))\n"
        "        return sum(seen)\n"
        "    for _ in range(2):\n"
        "        gate.sum_units(gate.next(), value, shape=job.facts.input_shape, bound=1.0)\n"
        "    return job.module",
        "one unit, however extreme",
        "keep nothing between calls",
    ),
    "late_memory": (
        # A rehearsal of three calls doesn't see it: it begins with the tenth unit.
        "def fit(self, job, gate):\n"
        "    seen = []\n"
        "    def value(unit):\n"
        "        seen.append(unit.inputs.mean(0).clamp(-9, 9).nan_to_num())\n"
        "        return sum(seen) if len(seen) > 9 else seen[-1]\n"
        "    for _ in range(2):\n"
        "        seen.clear()\n"
        "        gate.sum_units(gate.next(), value, shape=job.facts.input_shape, bound=1.0)\n"
        "    return job.module",
        "one unit, however extreme",
        "expected a unit",
    ),
    "other_weights": (
        "def fit(self, job, gate):\n"
        "    import torch\n"
        "    for _ in range(2):\n"
        "        gate.sum_units(gate.next(), self.value, shape=job.facts.input_shape, bound=1.0)\n"
        "    return torch.nn.Linear(2, 2)",
        "what fit returns loads",
        "expected weights that load into module(facts)",
    ),
    "no_module": (
        "def fit(self, job, gate):\n"
        "    for _ in range(2):\n"
        "        gate.sum_units(gate.next(), self.value, shape=job.facts.input_shape, bound=1.0)",
        "what fit returns loads",
        "got NoneType",
    ),
    "not_finite": (
        "def value(self, unit):\n"
        "    return unit.inputs.mean(0)\n"
        "def fit(self, job, gate):\n"
        "    for _ in range(2):\n"
        "        gate.sum_units(gate.next(), self.value, shape=job.facts.input_shape, bound=1.0)\n"
        "    job.module.mean.fill_(float('nan'))\n"
        "    return job.module",
        "what fit returns loads",
        "expected finite weights",
    ),
    "keeps_records": (
        "def fit(self, job, gate):\n"
        "    def value(unit):\n"
        "        KEPT.append(float(unit.inputs.sum()))\n"
        "        return unit.inputs.mean(0)\n"
        "    for _ in range(2):\n"
        "        gate.sum_units(gate.next(), value, shape=job.facts.input_shape, bound=1.0)\n"
        "    return job.module",
        "it keeps nothing between calls",
        "the global KEPT",
    ),
    "fits_nothing": (
        "def releases(self, facts, *, scale): raise self.unwritten('anything')",
        "it fits made-up records",
        "expected a learner for one kind of records at least",
    ),
}


def test_the_learner_without_a_fault_passes(check: Check) -> None:
    assert check(GOOD).faults == []


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_of_a_learner_is_named(name: str, check: Check) -> None:
    text, where, why = FAULTS[name]
    checked = check(GOOD + "\n" + textwrap.indent(text, "    ") + "\n")
    (found,) = [outcome for outcome in checked.outcomes if where in outcome.check]
    assert not found.ok, checked.faults
    assert why in found.remark


@pytest.mark.parametrize("event", ["laplace(scale)", "exponential(1 / scale)"])
def test_laplace_noise_and_selections_are_checked_in_their_own_norm(
    event: str, check: Check
) -> None:
    text = GOOD.replace("event=gaussian(scale)", f"event={event}")
    if "exponential" in event:
        text = text.replace(
            "total = gate.sum_units(gate.next(), self.value, shape=shape, bound=1.0)",
            "total = gate.select_units(gate.next(), lambda unit: unit.inputs.flatten(1).mean(0)[:2],"
            " candidates=2, bound=1.0)",
        ).replace("copy_(total)", "fill_(total)")
    assert check(text).faults == []


def test_a_sum_of_a_selection_is_named(check: Check) -> None:
    checked = check(GOOD.replace("event=gaussian(scale)", "event=exponential(1 / scale)"))
    assert any("Call select_units." in fault for fault in checked.faults)


def test_a_learner_of_a_sum_and_a_selection_has_its_one_fault_named(check: Check) -> None:
    (fault,) = check(NEAREST).faults
    assert "got TypeError from fit, after a charge" in fault


def test_the_start_of_a_learner_fits_one_screen() -> None:
    assert len(PLUGIN.splitlines()) < 65
