"""An audit of a spec: its probes one after the other, on made-up records.

Nothing is read and nothing is spent. Read next: `subject.py`, then `influence.py` and `noise.py`.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy
import torch

import dppipe
from dppipe.audit.probes.fit import DRAWS as FIT_DRAWS
from dppipe.audit.probes.fit import probe_fit
from dppipe.audit.probes.influence import measure_influence
from dppipe.audit.probes.noise import probe_noise
from dppipe.audit.probes.sampler_counts import probe_sampler
from dppipe.audit.probes.subject import make_subject
from dppipe.audit.probes.threshold_tests import draws_for
from dppipe.audit.probes.transcript import EPOCHS, STEPS, can_transcribe, probe_transcript
from dppipe.audit.probes.verdict import LEVEL, SHARES, AuditReport
from dppipe.errors import PrivacyRefusal, UsageError
from dppipe.planning.privacy_plan import make_plan
from dppipe.planning.step_plan import StepPlan

if TYPE_CHECKING:
    from torch import Tensor

    from dppipe.audit.probes.subject import Subject
    from dppipe.audit.probes.verdict import ProbeResult
    from dppipe.planning.plan import Plan
    from dppipe.privacy.budget import Relation
    from dppipe.spec.spec import Spec

Progress = Callable[[str, int, int], None]
"""Is told a probe's name, how many of its draws are done, and how many there are."""
DRAW_SECONDS = 60.0
"""How long the draws of one probe may take: with more, fewer are drawn, and less is found."""


def audit(
    spec: Spec,
    *,
    weights: Mapping[str, Tensor] | None = None,
    plan: Plan | None = None,
    seconds: float = DRAW_SECONDS,
    transcript: bool = True,
    progress: Progress = lambda name, done, total: None,
) -> AuditReport:
    """Audit the releases of a spec's own model, clipper, sampler and noise.

    Args:
        spec: What is audited.
        weights: The tensors of the model, such as those at the end of a run; those that training
            would start from, if None.
        plan: The plan of the spec, where it was made before.
        seconds: How long the draws of each probe may take.
        transcript: Whether whole epochs are released at a probe noise.
        progress: Is told how far each probe is.
    """
    started = time.monotonic()
    relation = _relation(spec)
    plan = plan or make_plan(spec)
    if isinstance(plan, StepPlan):
        subject = make_subject(spec, plan, weights=weights)
        with subject.engine:
            probes = _probe_steps(
                subject, seconds=seconds, transcript=transcript, progress=progress
            )
        notes = _notes(subject, transcript=transcript)
    else:
        from dppipe.audit.probes.two_worlds import probe_learner

        probes, notes = probe_learner(spec, plan, seconds=seconds, progress=progress)
    return AuditReport(
        name=spec.name,
        learner=spec.learner.kind,
        relation=relation,
        unit=plan.unit,
        release="a step's noisy sum, before the optimizer sees it" if plan.steps else "the release",
        probes=tuple(probes),
        notes=notes,
        seconds=time.monotonic() - started,
        settings=_settings(seconds),
    )


def _relation(spec: Spec) -> Relation:
    """Return what neighbouring data sets differ in; refuse a spec that claims nothing."""
    if spec.budget == "none":
        raise UsageError("budget: expected a privacy budget, got none: there is no claim to audit.")
    if spec.reproducible:
        raise PrivacyRefusal(
            "reproducible: expected false for an audit, got true. Noise that follows from a public "
            "seed protects nobody, and a probe of it says nothing."
        )
    return spec.budget.relation


def _probe_steps(
    subject: Subject, *, seconds: float, transcript: bool, progress: Progress
) -> list[ProbeResult]:
    """Return the results of the probes of noised sums."""
    counter = _Counter(progress)
    counter.start("influence", 1)
    influence = measure_influence(subject)
    counts: list[Tensor] = []
    counter.start("noise", 2 * draws_for(subject.multiplier))
    noise = probe_noise(
        subject, influence, seconds=seconds, progress=counter.add, keep_counts=counts.append
    )
    counter.start("fit", FIT_DRAWS)
    fit = probe_fit(subject, counts, progress=counter.add)
    counter.start("sampler", 20_000)
    sampler = probe_sampler(subject, seconds=seconds / 4, progress=counter.add)
    found = [influence.result, noise, fit, sampler]
    if transcript and can_transcribe(subject):
        counter.start("transcript", 2 * EPOCHS * STEPS)
        found.append(probe_transcript(subject, influence, seconds=seconds, progress=counter.add))
    return found


class _Counter:
    """Counts the draws of one probe after the other."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._name = ""
        self._total = 0
        self._done = 0

    def start(self, name: str, total: int) -> None:
        """Begin a probe of about so many draws."""
        self._name = name
        self._total = total
        self._done = 0
        self.add(0)

    def add(self, draws: int) -> None:
        """Note more draws."""
        self._done += draws
        self._progress(self._name, self._done, self._total)


def _notes(subject: Subject, *, transcript: bool) -> tuple[str, ...]:
    found = []
    if subject.plan.releases:
        found.append("releases before the first step have no probe here")
    if not can_transcribe(subject):
        found.append(
            f"no transcript probe for {subject.plan.sampler} with {subject.plan.mechanism} noise"
        )
    elif not transcript:
        found.append("the transcript probe was left out")
    return tuple(found)


def _settings(seconds: float) -> dict[str, Any]:
    return {
        "level": LEVEL,
        "shares": dict(SHARES),
        "seconds_of_draws": seconds,
        "versions": {
            "dppipe": dppipe.__version__,
            "torch": str(torch.__version__),
            "numpy": numpy.__version__,
            "python": platform.python_version(),
        },
    }
