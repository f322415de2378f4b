"""A release: one thing that a run computes from its records and lets out, and what it costs.

A run is a sequence of releases through one gate (`dppipe.learners.gate`). A plan lists them before
a record is read; the ledger has one row for each of them. Nothing here imports torch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from dppipe.input_layout import InputLayout
from dppipe.privacy.budget import Relation

if TYPE_CHECKING:
    from dp_accounting import DpEvent

    from dppipe.privacy.budget import Budget

Fact = float | int | str
"""A number or a name that is shown of a release; no cost is computed from it."""


@dataclass(frozen=True, kw_only=True)
class Release:
    """One release, as it is planned and charged.

    Guarantee: `event` holds all that an accountant needs. It is also the one place of the noise
    multiplier: the gate reads from it how much noise to add.

    Example:
        >>> from dppipe import Release
        >>> from dppipe.privacy.events.mechanisms import gaussian
        >>> release = Release(what="mean", event=gaussian(2.0), facts={"max_norm": 1.0})
        >>> release.what, release.count
        ('mean', 1)
    """

    what: str
    """What is released: "step", "statistics", "vote", "weights", "selection", "round", ..."""
    event: DpEvent
    count: int = 1
    """How often the event is charged; 0 where an earlier charge covers this release."""
    covers: int = 1
    """How many releases this one charge pays for: 1, or the steps of an epoch or a block."""
    facts: Mapping[str, Fact] = field(default_factory=dict)
    """What is shown of it, such as the sample rate."""
    place: str = ""
    """The option of the spec that asks for the release, for messages."""


class Prelude(Protocol):
    """Something that is released before a learner's own releases, such as private statistics.

    It is asked for by an option of the spec, and can be judged without an accounting library.
    """

    @property
    def place(self) -> str:
        """The option of the spec that asks for it: `data.normalize`."""
        ...

    @property
    def needs_count(self) -> bool:
        """Whether it is computed with the number of records, which must then be public."""
        ...

    @property
    def instead(self) -> str:
        """What can be done where it can't be released: `Give constants`."""
        ...

    def release(self, budget: Budget | None = None) -> Release:
        """Return the release; its noise may be a share of the budget."""
        ...


@dataclass(frozen=True, kw_only=True)
class PublicFacts:
    """What is known of a run before a record is read; releases are planned from this alone."""

    records: int | None
    """The number of training records, or of users; None where the relation keeps it secret."""
    unit: str
    relation: Relation
    input_shape: tuple[int, ...]
    outputs: int
    task: str
    epsilon: float | None = None
    """The budget's epsilon; None in a run without a budget."""
    delta: float | None = None
    """The budget's delta; None in a run without a budget."""
    public_inputs: int | None = None
    """The number of public inputs that the learner is given; None where it takes none."""
    seed: int = 0
    """The public seed of the spec."""
    category_counts: Mapping[int, int] = field(default_factory=dict)
    """The number of categories of each input that holds codes, by the input's place."""
    vocabulary: int | None = None
    """The number of token ids, where inputs are integers below it."""

    @property
    def input_layout(self) -> InputLayout:
        """What is public about one input as the model sees it."""
        per_token = self.task == "tagging"
        return InputLayout(self.input_shape, self.category_counts, self.vocabulary, per_token)


class PlansReleases(Protocol):
    """The planning half of a learner: it needs no torch and reads no record."""

    @property
    def scale_option(self) -> str:
        """The option that sets the noise."""
        ...

    @property
    def scale(self) -> float | None:
        """The noise that is set; None to find the one that lands on the budget."""
        ...

    def releases(self, facts: PublicFacts, *, scale: float) -> Sequence[Release]:
        """Return all that the learner releases, in order, at this noise multiplier."""
        ...


def is_built_in(learner: object) -> bool:
    """Return whether a learner is the package's own, which is believed; a plugin isn't."""
    return type(learner).__module__.startswith("dppipe.learners.")
