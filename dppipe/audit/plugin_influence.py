"""The influence probe of a plugin: its clipper or learner in a small spec of its own.

`dppipe plugins check` tries clippers on tensors alone; here one goes through the real private step
with canaries, and a learner through the real gate.
"""

from __future__ import annotations

import json
from pathlib import Path

from dppipe.audit.probes.influence import measure_influence
from dppipe.audit.probes.learner_subject import make_learner_subject
from dppipe.audit.probes.subject import make_subject
from dppipe.errors import RECORD_ERRORS, DppipeError
from dppipe.planning.privacy_plan import make_plan
from dppipe.planning.step_plan import StepPlan
from dppipe.spec.load import spec_from_text

PROBED = ("clipping", "learner")
"""The blocks of a spec whose plugins are probed."""
_CLIPPER = """\
version: 1
name: probe
data: {kind: synthetic, size: 500, features: 8, classes: 3, holdout: public}
model: {kind: mlp, hidden: [8]}
optimizer: {kind: sgd, lr: 0.1}
sampler: {kind: poisson, expected_batch_size: 50}
noise: {kind: constant, noise_multiplier: 1.0}
budget: {epsilon: 100.0, delta: 1.0e-5}
train: {steps: 3}
"""
_LEARNER = """\
version: 1
name: probe
data: {kind: synthetic, size: 500, features: 8, classes: 3, holdout: public}
budget: {epsilon: 1.0, delta: 1.0e-5}
"""


def probe_plugin(block: str, kind: str, *, folder: Path) -> tuple[bool, str]:
    """Return whether no canary moves a sum by more than its bound, and what was measured.

    A plugin that needs options, or whose release is no sum with noise, isn't tried.
    """
    text = _CLIPPER if block == "clipping" else _LEARNER
    try:
        spec = spec_from_text(
            text, overrides=[f"{block}={json.dumps({'kind': kind})}"], plugins=folder
        )
        plan = make_plan(spec)
        if isinstance(plan, StepPlan):
            subject = make_subject(spec, plan)
            with subject.engine:
                result = measure_influence(subject).result
        else:
            result = measure_influence(make_learner_subject(spec, plan)).result
    except DppipeError as error:
        return True, f"not tried: {str(error).splitlines()[0][:120]}"
    except RECORD_ERRORS as error:  # no record is involved, but the plugin needs another spec
        return True, f"not tried: {type(error).__name__} in a small spec of its own"
    return not result.rejected, result.measured
