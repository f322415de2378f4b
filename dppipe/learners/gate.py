"""The gate: the one place where something computed from records is released.

A learner holds no ledger, no key and no noise. It asks the gate for the next release, and hands
over a function that computes a bounded value. The gate asks the budget, starts to write the charge,
lets the function compute, waits until the charge is durable, adds the noise, and returns what may
be seen. `docs/gate.md` says on one page why nothing can be released uncharged. Read next:
`upcoming.py`, which release comes next, and `bounded.py`, what a learner hands over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dppipe.errors import PrivacyRefusal
from dppipe.learners.bounded import Bounded
from dppipe.learners.charging import charging
from dppipe.learners.ranks import Ranks
from dppipe.learners.sources import NoiseSources
from dppipe.noise.process import Independent, NoiseProcess, NoiseState
from dppipe.privacy.charges import Charge
from dppipe.privacy.events.multipliers import mechanism_of, noise_multiplier

if TYPE_CHECKING:
    from torch import Tensor

    from dppipe.learners.upcoming import Upcoming
    from dppipe.privacy.budget import Relation
    from dppipe.privacy.release import Release
    from dppipe.randomness.streams import Purpose
    from dppipe.runs.follower import NoLedger
    from dppipe.runs.ledger import Ledger

_PURPOSES: dict[str, Purpose] = {"step": "noise", "statistics": "statistics"}
"""The secret stream of each kind of release; all others share one."""


@dataclass
class Gate:
    """Releases what a learner computes, one release after another.

    Guarantees:
    - Nothing is computed for a release that the plan or its filter doesn't admit.
    - The release's row is durable before noise is drawn for it. If the row can't be written,
      nothing is released.
    - The noise has the multiplier of the event that was charged, times the sensitivity that came
      with the value.
    - Each release is charged once, and released once.
    """

    ledger: Ledger | NoLedger
    upcoming: Upcoming
    relation: Relation
    unit: str
    sources: NoiseSources = field(default_factory=NoiseSources)
    ranks: Ranks = field(default_factory=Ranks)
    process: NoiseProcess = field(default_factory=Independent)
    """How the noise of one step relates to that of others."""
    covered_by: str | None = None
    """The hash of the row that has paid for everything here; None where each release pays."""
    computing: bool = field(default=False, init=False)
    """Whether a release is being computed: only then may records be read."""

    def __post_init__(self) -> None:
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="ledger")
        self._offered: Release | None = None
        self._state: NoiseState = None
        self._has_state = False

    def next(self) -> Release | None:
        """Return the next release, if the budget admits one; None ends the run."""
        self._offered = self.upcoming.next()
        return self._offered

    def add_noise(self, release: Release, compute: Callable[[], Bounded]) -> Tensor:
        """Charge a release, compute its value, and return it with noise.

        Args:
            release: What `next` has returned; a learner may add facts that are shown of it.
            compute: Computes the value. Only while it runs may records be read.
        """
        with self._charged(release):
            bounded = compute()
            if bounded.per_rank:
                self.ranks.sum_(bounded.whole)
        std = bounded.noise_std(noise_multiplier(release.event))
        if bounded.diagnose is not None:
            bounded.diagnose(std)
        if self.ranks.first:
            self._add_noise(release, bounded, std=std)
        if bounded.per_rank:
            self.ranks.broadcast_(bounded.whole)
        else:
            bounded.value.copy_(self.ranks.agree(bounded.value))
        self.upcoming.observe(bounded.value)
        return bounded.value

    def _add_noise(self, release: Release, bounded: Bounded, *, std: float) -> None:
        purpose = _PURPOSES.get(release.what, "release")
        stream = self.sources.get(purpose, mechanism_of(release.event))
        if release.what == "step":
            if not self._has_state:
                self._state = self.process.init(bounded.value)
                self._has_state = True
            self._state = self.process.add_(
                bounded.value, self._state, std=std, over=bounded.over, stream=stream
            )
        else:
            stream.add_(bounded.value, std=std, over=bounded.over)
        beside = bounded.beside
        if beside is not None:
            own = beside.noise_multiplier * beside.sensitivity
            self.sources.get("count").add_(beside.value, std=own, over=bounded.over)

    @contextmanager
    def _charged(self, release: Release) -> Iterator[None]:
        """Charge a release while its value is computed: the row is durable when the block ends."""
        self._refuse_other(release)
        charge = self.charge_of(release)
        # Whatever happens from here on, the release is charged and can't be taken again.
        self.upcoming.charge(release)
        self._offered = None
        with charging(self.ledger, charge, writer=self._writer):
            self.computing = True
            try:
                yield
            finally:
                self.computing = False

    def _refuse_other(self, release: Release) -> None:
        """Refuse a release that isn't the one which was offered: each is used once."""
        offered = self._offered
        if offered is None:
            raise PrivacyRefusal(
                f"gate: expected a release that next() has just returned, got {release.what!r} "
                "again or without asking. Each release is charged and used once."
            )
        if (release.what, release.event, release.count) != (
            offered.what,
            offered.event,
            offered.count,
        ):
            raise PrivacyRefusal(
                f"gate: expected the release {offered.what!r} as next() has returned it, got one "
                "with another event or count. Only facts may be added."
            )

    def charge_of(self, release: Release) -> Charge:
        """Return what a release costs, as the ledger keeps it."""
        covered = self.covered_by is not None
        return Charge(
            what=release.what,
            event=release.event,
            relation=self.relation,
            unit=self.unit,
            count=0 if covered else release.count,
            epsilon=self.upcoming.epsilon_after(release),
            facts=release.facts,
            covered_by=self.covered_by,
        )
