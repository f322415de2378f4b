"""The seams: everything of dppipe that the distinguishing test takes hold of, and nothing of it stands elsewhere.

* **Keys.** Every `stream_key` in the package gives keys by purpose and count, so both runs draw the same secrets.
* **Releases.** `GaussianStream.add_` and `LaplaceStream.add_` note the sum before noise and what comes out. In the second run
  what came out in the first is put in its place, so both runs stand at the same weights at every step.
* **Draws.** `PrivateLoader.draw` notes which units a step draws. Under `add_remove` the second run draws the first run's units
  again; the missing one is left out or, with `empty_row`, keeps a row that contributes nothing, so that the rows of others
  keep their places. Under the other relations places stay, and each run draws by itself.
* **Hooks.** `Trainer.fit` gets one more callback, `Watch`.

A core that changes is followed here.
"""

from __future__ import annotations

import hashlib
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy
import pytest
import torch
from redteam.facts import Facts, describe
from redteam.watching import Watch
from torch import Tensor
from torch.utils.data import Dataset, Subset, TensorDataset

import dppipe.pipeline.run  # noqa: F401  every module that makes keys is loaded before keys are coupled
from dppipe.learners.records.loader import PrivateLoader
from dppipe.randomness import streams
from dppipe.randomness.gaussian import GaussianStream
from dppipe.randomness.laplace import LaplaceStream


@dataclass(frozen=True)
class Release:
    """One call of a noise source: the sum before noise, and what came out."""

    step: int
    source: str
    std: float
    over: float
    before: Tensor
    after: Tensor


@dataclass
class Trace:
    """What was seen inside one run, in order."""

    step: int = 0
    """The step that is under way; 0 before the first."""
    releases: list[Release] = field(default_factory=list)
    units: list[str] = field(default_factory=list)
    """All units that there were to draw from, each by what it is."""
    draws: list[list[int]] = field(default_factory=list)
    """The places of the units of each draw; one place behind the last is an empty row."""
    notes: list[tuple[int, str, Facts]] = field(default_factory=list)
    """Step, place and facts, in order."""

    def picks(self, step: int) -> int:
        """Return how often the unit that was picked most often stands in a step's draw."""
        drawn = self.draws[step - 1] if 0 < step <= len(self.draws) else []
        return max(Counter(drawn).values(), default=1)

    def note(self, place: str, facts: Facts) -> None:
        self.notes.append((self.step, place, facts))

    def __deepcopy__(self, memo: Any) -> Trace:
        return self  # what a callback keeps of private validation is undone, but not what is noted here


@contextmanager
def coupled(
    trace: Trace,
    *,
    replay: Trace | None = None,
    by_identity: bool = False,
    empty_row: Any = None,
    salt: str = "",
    salted: tuple[str, ...] = (),
    watch: bool = True,
) -> Iterator[None]:
    """Run with coupled secrets, and note what happens in `trace`.

    Args:
        trace: Where everything is noted.
        replay: The first run's trace, for the second run.
        by_identity: Whether the second run draws the first run's units, found by what they are (`add_remove`).
        empty_row: An example that contributes nothing, for the row of a unit that the second run lacks.
        salt: Another salt gives other keys for the purposes in `salted`.
        watch: Whether the hooks of fits are watched, too.
    """
    with pytest.MonkeyPatch.context() as patch:
        _couple_keys(patch, salt, salted)
        for source in (GaussianStream, LaplaceStream):
            _couple_releases(patch, source, trace, replay)
        _couple_draws(patch, trace, replay if by_identity else None, empty_row)
        if watch:
            _watch_fits(patch, trace, salt=1 if replay is None else 2)
        yield


def _couple_keys(patch: pytest.MonkeyPatch, salt: str, salted: tuple[str, ...]) -> None:
    original, made = streams.stream_key, Counter()

    def coupled_key(purpose: str, *, seed: int | None = None) -> bytes:
        if seed is not None:
            return original(purpose, seed=seed)
        made[purpose] += 1
        chosen = salt if purpose in salted else ""
        return hashlib.sha256(f"{chosen} {purpose} {made[purpose]}".encode()).digest()

    for name, module in list(sys.modules.items()):
        if name.split(".")[0] == "dppipe" and getattr(module, "stream_key", None) is original:
            patch.setattr(module, "stream_key", coupled_key)


def _couple_releases(
    patch: pytest.MonkeyPatch, source: type, trace: Trace, replay: Trace | None
) -> None:
    original = source.add_

    def add_(self: Any, flat: Tensor, std: float, *, over: float = 1.0) -> Tensor:
        number, before = len(trace.releases), flat.detach().clone()
        original(self, flat, std, over=over)
        if (
            replay is not None
            and number < len(replay.releases)
            and replay.releases[number].after.shape == flat.shape
        ):
            flat.copy_(replay.releases[number].after)
        trace.releases.append(
            Release(
                trace.step, source.__name__, float(std), float(over), before, flat.detach().clone()
            )
        )
        return flat

    patch.setattr(source, "add_", add_)


def _couple_draws(
    patch: pytest.MonkeyPatch, trace: Trace, replay: Trace | None, empty_row: Any
) -> None:
    original = PrivateLoader.draw

    def draw(self: PrivateLoader, step: int) -> numpy.ndarray:
        trace.step = step
        if not trace.units:
            trace.units = units_of(self)
            if replay is not None and empty_row is not None:
                _add_empty_row(self, empty_row)
        drawn = original(self, step)
        number = len(trace.draws)
        if replay is not None and number < len(replay.draws):
            wanted = [replay.units[place] for place in replay.draws[number]]
            drawn = _places(wanted, among=trace.units, empty_row=empty_row is not None)
        trace.draws.append(drawn.tolist())
        return drawn

    patch.setattr(PrivateLoader, "draw", draw)


def _places(wanted: list[str], *, among: list[str], empty_row: bool) -> numpy.ndarray:
    """Return where the wanted units stand; one that isn't there is left out, or stands behind the last."""
    place_of = {unit: place for place, unit in enumerate(among)}
    if empty_row:
        found = [place_of.get(unit, len(among)) for unit in wanted]
    else:
        found = [place_of[unit] for unit in wanted if unit in place_of]
    return numpy.array(found, dtype=numpy.int64)


def _watch_fits(patch: pytest.MonkeyPatch, trace: Trace, *, salt: int) -> None:
    for name in ("pytorch_lightning", "lightning.pytorch"):
        if name in sys.modules:
            _watch_trainer(patch, sys.modules[name].Trainer, trace, salt=salt)


def _watch_trainer(patch: pytest.MonkeyPatch, trainer: Any, trace: Trace, *, salt: int) -> None:
    original = trainer.fit

    def fit(self: Any, *args: Any, **kwargs: Any) -> Any:
        self.callbacks.append(Watch(trace, salt=salt))
        return original(self, *args, **kwargs)

    patch.setattr(trainer, "fit", fit)


def units_of(loader: PrivateLoader) -> list[str]:
    """Return what each unit of a loader is: a record by its content, a user by its id."""
    if loader.index.unit_of is not None:
        return [str(user) for user in numpy.unique(numpy.asarray(loader.dataset.users))]
    return [identity(loader.dataset, place) for place in range(loader.records)]


def identity(dataset: Dataset[Any], place: int) -> str:
    """Return what a record is, whether or not it can be read."""
    if isinstance(dataset, Subset):
        return identity(dataset.dataset, dataset.indices[place])
    if hasattr(dataset, "identity"):
        return dataset.identity(place)
    return repr(describe(dataset[place]))


def _add_empty_row(loader: PrivateLoader, row: Any) -> None:
    """Let a loader's reader find one more row behind the others, and take it for a usable one."""
    loader.dataset = with_empty_row(loader.dataset, row)
    valid = loader.reader.valid
    if valid is not None:
        valid = numpy.append(valid, True)
    loader.reader = replace(loader.reader, dataset=loader.dataset, valid=valid)


def with_empty_row(dataset: Dataset[Any], row: Any) -> Dataset[Any]:
    """Return a data set with one more row behind the others; nobody asks for its length any more."""
    if isinstance(dataset, TensorDataset):
        return TensorDataset(
            *(
                torch.cat([tensor, each[None]])
                for tensor, each in zip(dataset.tensors, row, strict=True)
            )
        )

    class WithEmptyRow(Dataset[Any]):
        def __len__(self) -> int:
            return len(dataset)

        def __getitem__(self, place: int) -> Any:
            if place < len(dataset):
                return dataset[place]
            return row() if callable(row) else row

    return WithEmptyRow()
