"""One run with a recorder in place of each noise stream: through the spec, or through the callback."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest
import pytorch_lightning as pl
from connections.kinds import Combination
from connections.neighbours import neighbours
from connections.planning import Planned, planned
from redteam import modules, staging
from redteam.comparing import Observed, moved_bounds
from redteam.coupling import Trace, coupled
from redteam.staging import Data

import dppipe
from dppipe.pipeline.run import run_spec
from dppipe.randomness.keystream import Keystream

Way = Literal["spec", "callback"]


@dataclass
class Recorded:
    """What was seen of one run."""

    trace: Trace = field(default_factory=Trace)
    rows: list[dict[str, Any]] = field(default_factory=list)
    """The rows of the ledger."""
    keys: list[bytes] = field(default_factory=list)
    """The key of every stream of random bytes, in the order in which they were opened."""


@dataclass(frozen=True)
class Compared:
    """Two runs on neighbouring data, the second with the releases of the first."""

    first: Recorded
    second: Recorded
    distances: dict[int, float]
    """By how many bounds the sums before noise differ at each step; what a row is charged for is one."""


def compare_neighbours(combination: Combination, way: Way) -> Compared:
    """Run a combination on both of its data sets."""
    possible = planned(combination)
    assert possible is not None
    data = neighbours(combination)
    first = record(possible, data.first, way)
    second = record(possible, data.second, way, replay=first.trace)
    files = {"ledger.jsonl": _as_facts(first.rows)}
    mine = Observed(first.trace, {}, {}, {}, files)
    other = Observed(second.trace, {}, {}, {}, files)
    return Compared(first, second, moved_bounds(mine, other, relation=combination.relation))


def record(possible: Planned, data: Data, way: Way, *, replay: Trace | None = None) -> Recorded:
    """Run once, in a directory of its own, and return what was seen."""
    seen = Recorded()
    relation = possible.plan.relation
    coupling = {"replay": replay, "by_identity": relation == "add_remove", "watch": False}
    with (
        tempfile.TemporaryDirectory() as folder,
        coupled(seen.trace, **coupling),
        _noting_keys(seen.keys),
    ):
        run_dir = Path(folder) / "run"
        if way == "spec":
            staging.STAGE[:] = [data]
            run_spec(possible.spec, possible.plan, run_dir=run_dir)
        else:
            _fit(possible, data, run_dir)
        lines = (run_dir / "ledger.jsonl").read_text().splitlines()
    seen.rows = [json.loads(line) for line in lines]
    return seen


def _fit(possible: Planned, data: Data, run_dir: Path) -> None:
    """Train a module of a user's own, with the parts of the spec made in Python."""
    spec = possible.spec
    pl.seed_everything(1, verbose=False)
    callback = dppipe.DPCallback(
        sampler=spec.sampler,
        clipping=spec.clipping,
        noise=spec.noise,
        accountant=spec.accountant,
        budget=spec.budget,
        run_dir=run_dir,
    )
    trainer = pl.Trainer(
        max_steps=possible.plan.steps,
        callbacks=[callback],
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(modules.Offering(), callback.loader(data.train))


@contextmanager
def _noting_keys(keys: list[bytes]) -> Iterator[None]:
    original = Keystream.__init__

    def noting(self: Keystream, key: bytes, *args: Any, **kwargs: Any) -> None:
        keys.append(key)
        original(self, key, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Keystream, "__init__", noting)
        yield


def _as_facts(rows: list[dict[str, Any]]) -> dict[str, str]:
    """Return the rows as the comparison of runs reads them."""
    facts: dict[str, str] = {}
    for number, row in enumerate(rows):
        for name in ("step", "mechanism", "noise_multiplier"):
            facts[f"{number}.{name}"] = str(row[name])
    return facts
