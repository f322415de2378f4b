"""Gates on a few planned releases, whose noise is recorded, for tests of the gate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dp_accounting
import torch
from private_steps import GivenSources

from dppipe.clipping.flat import Flat
from dppipe.learners.gate import Gate
from dppipe.learners.gating.bounded import Bounded
from dppipe.learners.gating.upcoming import PlannedReleases
from dppipe.noise.constant import Constant
from dppipe.planning.planned_release import PlannedRelease
from dppipe.planning.privacy_plan import PrivateParts, plan_privacy
from dppipe.privacy.accountants.rdp import Rdp
from dppipe.privacy.budget import Budget
from dppipe.privacy.charges import Charge
from dppipe.privacy.ledger_reading import read_ledger
from dppipe.privacy.release import Release
from dppipe.runs.ledger import Ledger
from dppipe.sampling.full_batch import FullBatch

Z = 3.0
GAUSSIAN = dp_accounting.GaussianDpEvent(Z)


class Recording:
    """A source that adds no noise, and keeps what it was asked for and how many rows there were."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.asked: list[tuple[list[float], float, float]] = []
        self.rows: list[int] = []

    def add_(self, flat: torch.Tensor, std: float, *, over: float = 1.0) -> torch.Tensor:
        self.asked.append((flat.tolist(), std, over))
        self.rows.append(self.path.read_bytes().count(b"\n"))
        return flat.div_(over)


class Opened:
    """A gate on releases of these events, with a ledger and a recording source of noise."""

    def __init__(self, folder: Path, *events: Any, what: str = "vote", **options: Any) -> None:
        parts = PrivateParts(
            FullBatch(),
            Flat(),
            Constant(noise_multiplier=30.0),
            Rdp(),
            Budget(epsilon=50.0, delta=1e-5),
        )
        releases = tuple(
            PlannedRelease.of(Release(what=what, event=event, facts={"number": number}))
            for number, event in enumerate(events or (GAUSSIAN, GAUSSIAN))
        )
        made = plan_privacy(parts, name="t", records=1000, steps=5)
        self.plan = made.model_copy(update={"releases": releases})
        self.ledger = Ledger.create(folder / "ledger.jsonl", plan=self.plan.to_json())
        self.noise = Recording(self.ledger.path)
        self.beside = Recording(self.ledger.path)
        self.upcoming = PlannedReleases(self.plan)
        purposes = {"release": self.noise, "noise": self.noise, "statistics": self.noise}
        sources = GivenSources(**purposes, count=self.beside)
        self.gate = Gate(
            self.ledger,
            self.upcoming,
            options.pop("relation", "zero_out"),
            options.pop("unit", "example"),
            sources=sources,
            **options,
        )
        self.computed = 0

    def compute(self) -> Bounded:
        self.computed += 1
        return Bounded(torch.tensor([1.0, 2.0]), 1.0)

    def next(self) -> Release:
        release = self.gate.next()
        assert release is not None
        return release

    @property
    def charges(self) -> tuple[Charge, ...]:
        return read_ledger(self.ledger.path, plan=self.plan.to_json()).charges

    def expect_untouched(self, rows: int = 0) -> None:
        """Expect that so many releases were charged and computed, and nothing more."""
        assert (len(self.charges), self.computed, len(self.noise.asked)) == (rows, rows, rows)
        assert self.upcoming.done == rows
