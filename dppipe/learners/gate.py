"""The gate: the one place where something computed from records is released.

A learner holds no ledger, no key and no noise. It asks the gate for the next release, and hands
over a function that computes a bounded value. The gate asks the budget, starts to write the charge,
lets the function compute, waits until the charge is durable, adds the noise, and returns what may
be seen. `docs/gate.md` says on one page why nothing can be released uncharged. Read next:
`gating/upcoming.py`, which release comes next, and `gating/bounded.py`, what a learner hands over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import torch

from dppipe.learners.gating.bounded import Bounded
from dppipe.learners.gating.charging import charging
from dppipe.learners.gating.covering import written_row
from dppipe.learners.gating.medians import draw_medians, refuse_other_charge
from dppipe.learners.gating.offered import refuse_other_release
from dppipe.learners.gating.reading_window import ReadingWindow
from dppipe.learners.gating.release_noise import ReleaseNoise
from dppipe.learners.gating.selection import select_noisily, selecting_mechanism
from dppipe.learners.gating.sources import NoiseSources
from dppipe.learners.gating.upcoming import PlannedReleases
from dppipe.learners.ranks import Ranks
from dppipe.noise.process import Independent, NoiseProcess
from dppipe.privacy.charges import Charge
from dppipe.privacy.events.multipliers import composed_noises, noise_multiplier

if TYPE_CHECKING:
    from torch import Tensor

    from dppipe.learners.gating.upcoming import Upcoming
    from dppipe.planning.plan import Plan
    from dppipe.privacy.budget import Relation
    from dppipe.privacy.release import Release
    from dppipe.runs.follower import NoLedger
    from dppipe.runs.ledger import Ledger
    from dppipe.runs.released import ReleasedValues

_Value = TypeVar("_Value")


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
    values: ReleasedValues | None = None
    """Where values of releases are saved, for a learner whose run goes on by asking again."""
    on_release: Callable[[Charge], None] = field(default=lambda charge: None)
    """Is told of each release that isn't a step, once it is out."""
    window: ReadingWindow = field(default_factory=ReadingWindow)
    """When records may be read; gates that one charge has paid for share it."""

    def __post_init__(self) -> None:
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="ledger")
        self._offered: Release | None = None
        self._noise = ReleaseNoise(self.sources, self.process)
        self._row: Future[None] = Future()
        self._charge: Charge | None = None
        self._number = 0  # how many releases that aren't steps were charged, or read from disk

    @property
    def computing(self) -> bool:
        """Whether a release is being computed: only then may records be read."""
        return self.window.is_open

    def next(self) -> Release | None:
        """Return the next release, if the budget admits one; None ends the run."""
        self._offered = self.upcoming.next()
        return self._offered

    def skip(self, release: Release) -> None:
        """Go on to the next release: an earlier start of the run has let this one out.

        Whoever skips a release has read its value, which has its row (`inputs/lost_releases.py`).
        """
        refuse_other_release(release, self._offered)
        self.upcoming.charge(release)
        self._offered = None
        self._number += 1

    def add_noise(self, release: Release, compute: Callable[[], Bounded]) -> Tensor:
        """Charge a release, compute its value, and return it with noise.

        Args:
            release: What `next` has returned; a learner may add facts that are shown of it.
            compute: Computes the value. Only while it runs may records be read.
        """
        stored = self._stored(release)
        if stored is not None:
            return stored
        multiplier = noise_multiplier(release.event)
        with self._charged(release):
            bounded = compute()
            if bounded.per_rank:
                self.ranks.sum_(bounded.whole)
        std = bounded.noise_std(multiplier)
        if bounded.diagnose is not None:
            bounded.diagnose(std)
        if self.ranks.first:
            self._noise.add_(release, bounded, std=std)
        if bounded.per_rank:
            self.ranks.broadcast_(bounded.whole)
        else:
            bounded.value.copy_(self.ranks.agree(bounded.value))
        if release.what == "step":
            self.upcoming.observe(bounded.seen)
        self._let_out(release, bounded.value)
        return bounded.value

    def select(self, release: Release, scores: Callable[[], Bounded]) -> int:
        """Charge a release, and return the number of a candidate with a high score.

        The event is an exponential mechanism's, or epsilon with delta 0, which permute-and-flip
        selects by; another one is refused before it is charged.

        Args:
            release: What `next` has returned.
            scores: Computes each candidate's score; a unit moves it by at most the sensitivity.
        """
        mechanism = selecting_mechanism(release.event)

        def draw(bounded: Bounded) -> Tensor:
            stream = self.sources.selection(mechanism)
            chosen = select_noisily(release.event, bounded, relation=self.relation, stream=stream)
            return torch.tensor(chosen)

        return int(self._drawn(release, scores, draw))

    def medians(
        self, release: Release, table: Callable[[], Tensor], *, columns: int, radius: float
    ) -> Tensor:  # -> [columns]
        """Charge a release, and return a noisy median of each column (`gating/medians.py`).

        Args:
            release: What `next` has returned; an exponential mechanism for each column.
            table: Computes `[rows, columns]`; one unit changes one row, under every relation.
            columns: The number of medians, each in [-radius, radius].
            radius: A public constant.
        """
        refuse_other_charge(release, columns)

        def draw(values: Tensor) -> Tensor:
            return draw_medians(release, values, columns, radius, self.sources.median())

        return self._drawn(release, table, draw)

    def perturb(
        self,
        release: Release,
        solve: Callable[[Tensor], Bounded],
        *,
        size: int,
        sensitivity: float,
    ) -> Tensor:
        """Charge a release, hand noise to a solver, and return the solution.

        The event is that of noise inside an objective, or two in a row: the second is noise on the
        solution, which pays for a solver that isn't exact.

        Args:
            release: What `next` has returned.
            solve: Returns the solution for a noise vector `[size]`, and how far it may be off: two
                solvers' solutions for one noise vector differ by at most its sensitivity.
            size: The length of the noise vector.
            sensitivity: How far one unit's presence moves what the noise is added to.
        """
        stored = self._stored(release)
        if stored is not None:
            return stored
        inside, *after = composed_noises(release.event)
        with self._charged(release):
            self._wait_until_durable()
            noise = torch.zeros(size, dtype=torch.float64)
            stream = self.sources.get("release", inside.mechanism)
            stream.add_(noise, std=inside.multiplier * sensitivity)
            bounded = solve(noise)
        for mechanism, multiplier in after:
            stream = self.sources.get("release", mechanism)
            stream.add_(bounded.value, std=multiplier * bounded.sensitivity)
        bounded.value.div_(bounded.over)
        self._let_out(release, bounded.value)
        return bounded.value

    def covered(self, release: Release, plan: Plan, ledger: Ledger) -> Gate:
        """Charge a release, and return a gate whose rows name its row and count nothing.

        Args:
            release: What `next` has returned; its event covers all that the plan releases.
            plan: The releases of the other gate.
            ledger: An empty ledger for them.
        """
        return Gate(
            ledger,
            PlannedReleases(plan),
            self.relation,
            self.unit,
            sources=self.sources,
            covered_by=self.cover(release),
            window=self.window,
        )

    def cover(self, release: Release) -> str:
        """Return the hash of the durable row that pays for other ledgers, charged now or before."""
        refuse_other_release(release, self._offered)
        charge = self.charge_of(release)
        found = written_row(self.ledger, charge, number=self._number)
        if found is not None:
            self.skip(release)
        else:
            with self._charged(release):
                pass
        self.on_release(charge)
        return found or self.ledger.row_hash

    def _drawn(
        self, release: Release, compute: Callable[[], _Value], draw: Callable[[_Value], Tensor]
    ) -> Tensor:
        """Charge a release, compute its value, and return what is drawn by it."""
        drawn = self._stored(release)
        if drawn is None:
            with self._charged(release):
                value = compute()
            drawn = draw(value)
            self._let_out(release, drawn)
        return drawn

    def _stored(self, release: Release) -> Tensor | None:
        """Return the value of a release that an earlier start of the run has let out."""
        if self.values is None or release.what == "step":
            return None
        refuse_other_release(release, self._offered)
        found = self.values.load(self._number)
        if found is not None:
            self.skip(release)
        return found

    def _let_out(self, release: Release, value: Tensor) -> None:
        """Save a released value before its learner sees it, and show that it was released."""
        if release.what == "step":
            return
        if self.values is not None:
            self.values.save(self._number - 1, value)
        if self._charge is not None:
            self.on_release(self._charge)

    @contextmanager
    def _charged(self, release: Release) -> Iterator[None]:
        """Charge a release while its value is computed: the row is durable when the block ends."""
        refuse_other_release(release, self._offered)
        charge = self._charge = self.charge_of(release)
        # Whatever happens from here on, the release is charged and can't be taken again.
        self.upcoming.charge(release)
        self._offered = None
        if release.what != "step":
            self._number += 1
        with charging(self.ledger, charge, writer=self._writer) as self._row, self.window.opened():
            yield

    def _wait_until_durable(self) -> None:
        self._row.result()  # the row of the release that is being computed

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
