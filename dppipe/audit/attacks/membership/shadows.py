"""Shadow models: trained like the victim on random halves, so that membership in them is known.

They are trained in pairs, each on the half that the other leaves out: every record is then in
exactly half of them. Halves are drawn by a public seed; of a user, all records go together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy

from dppipe.audit.attacks.membership.answers import Answers, ask
from dppipe.audit.attacks.training import train_on

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dppipe.audit.attacks.membership.subjects import Subjects
    from dppipe.audit.attacks.progress import Progress
    from dppipe.spec.spec import Spec


@dataclass(frozen=True)
class Shadows:
    """What shadow models answer on the attacked records, and which records each has seen."""

    answers: Sequence[Answers]
    inside: NDArray[numpy.bool_]  # [shadows, attacked]

    def confidences(self) -> NDArray[numpy.float64]:  # [shadows, attacked]
        """Each shadow's confidences."""
        return numpy.stack([one.confidences for one in self.answers])

    def probabilities(self) -> NDArray[numpy.float64]:  # [shadows, attacked]
        """Each shadow's probabilities of the true labels."""
        return numpy.stack([one.probabilities for one in self.answers])


def draw_halves(units: NDArray[numpy.int64], count: int, *, seed: int) -> NDArray[numpy.bool_]:
    """Return which records each of `count` shadows trains on: `[count, records]`.

    Shadows 2 i and 2 i + 1 have complementary halves of the units.
    """
    generator = numpy.random.default_rng(seed)
    names, numbers = numpy.unique(units, return_inverse=True)
    halves = []
    for _ in range(count // 2):
        chosen = numpy.zeros(len(names), dtype=bool)
        chosen[generator.permutation(len(names))[: len(names) // 2]] = True
        halves += [chosen[numbers], ~chosen[numbers]]
    return numpy.stack(halves)


def train_shadows(
    spec: Spec,
    subjects: Subjects,
    *,
    count: int,
    folder: Path,
    progress: Progress,
    of: str,
) -> Shadows:
    """Train shadow models by a spec, and ask each about the attacked records.

    Args:
        spec: What trains the model under attack.
        subjects: Who is attacked, and which records there are.
        count: How many shadows; an even number.
        folder: Where they are trained, and lost.
        progress: Told of each.
        of: Whose shadows they are, in words.
    """
    halves = draw_halves(subjects.pool.units, count, seed=spec.seed)
    attacked = subjects.attacked
    answers = []
    for number, half in enumerate(halves):
        progress.next(f"shadow {number + 1} of {count} of the {of}")
        seed = (spec.seed + 1 + number) % 2**32
        model = train_on(spec, subjects.pool.take(half), seed=seed, folder=folder)
        answers.append(ask(model, attacked))
    return Shadows(answers, halves[:, subjects.rows])
