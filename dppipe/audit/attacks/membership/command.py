"""`dppipe attack RUN --kind membership`: members against the holdout, beside a twin."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dppipe.audit.attacks.membership.answers import ask
from dppipe.audit.attacks.membership.findings import Findings, report_of
from dppipe.audit.attacks.membership.methods import scores_by, shadows_of
from dppipe.audit.attacks.membership.roc import Roc, make_roc
from dppipe.audit.attacks.membership.shadows import train_shadows
from dppipe.audit.attacks.membership.subjects import choose_subjects
from dppipe.audit.attacks.training import temporary_folder
from dppipe.audit.attacks.twin import make_twin
from dppipe.errors import UsageError

if TYPE_CHECKING:
    from dppipe.audit.attacks.membership.subjects import Subjects
    from dppipe.audit.attacks.options import AttackOptions
    from dppipe.audit.attacks.predictor import Predictor
    from dppipe.audit.attacks.report import Report
    from dppipe.audit.attacks.victim import Victim
    from dppipe.spec.spec import Spec


def attack(victim: Victim, options: AttackOptions) -> Report:
    """Return how well members of a run are told from non-members, and members of its twin."""
    method = options.method or "rmia"
    shadows = shadows_of(method, options)
    if not victim.model.classifies and method != "loss":
        raise UsageError(
            f"attack: --method: expected loss for a regression, which has no probabilities, got "
            f"{method}. Say --method loss."
        )
    subjects = choose_subjects(victim, most=options.members)
    options.progress.begin(1 + 2 * shadows)
    with temporary_folder() as folder:
        options.progress.next("twin without privacy")
        twin = make_twin(victim, options, folder=folder)
        attacked = _Attacked(subjects, method, shadows, folder, options)
        on_twin, _ = attacked.roc(twin.model, twin.spec, of="twin")
        on_private, chosen = attacked.roc(victim.model, victim.spec, of="private run")
    found = Findings(
        method=method,
        shadows=shadows,
        private=on_private,
        twin=on_twin,
        twin_name=twin.name,
        claim=victim.claim,
        seed=victim.spec.seed,
        chosen=chosen,
        seeded=victim.plan.reproducible,
    )
    return report_of(found)


class _Attacked:
    """Attacks one model after another in the same way."""

    def __init__(
        self, subjects: Subjects, method: str, shadows: int, folder: Path, options: AttackOptions
    ) -> None:
        self._subjects = subjects
        self._method = method
        self._count = shadows
        self._folder = folder
        self._progress = options.progress

    def roc(self, model: Predictor, spec: Spec, *, of: str) -> tuple[Roc, dict[str, float]]:
        """Return the ROC of the attack on a model, and what the attack has chosen itself.

        Args:
            model: The model under attack.
            spec: What trains models like it.
            of: What progress calls it.
        """
        shadows = None
        if self._count:
            shadows = train_shadows(
                spec,
                self._subjects,
                count=self._count,
                folder=self._folder,
                progress=self._progress,
                of=of,
            )
        answers = ask(model, self._subjects.attacked)
        scores, chosen = scores_by(
            self._method, answers, shadows, are_members=self._subjects.are_members
        )
        return make_roc(scores, self._subjects.are_members), chosen
