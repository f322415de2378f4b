"""Runs whose draws and noise are those of an earlier run, for comparisons bit by bit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import numpy
import torch

from dppipe.learners.records.loader import PrivateLoader
from dppipe.randomness.gaussian import GaussianStream

draw = PrivateLoader.draw
add_ = GaussianStream.add_


@dataclass
class Tape:
    """The draws of real units and the noise of the model's coordinates, step by step."""

    draws: list[Any] = field(default_factory=list)
    noise: list[Any] = field(default_factory=list)


@contextmanager
def recording(tape: Tape) -> Iterator[None]:
    """Keep what a run draws."""

    def kept_draw(self: PrivateLoader, step: int) -> Any:
        tape.draws.append(draw(self, step))
        return tape.draws[-1]

    def kept_noise(self: GaussianStream, flat: Any, std: float, *, over: float = 1.0) -> Any:
        tape.noise.append(add_(self, torch.zeros_like(flat), std))
        return flat.add_(tape.noise[-1]).div_(over)

    with (
        patch.object(PrivateLoader, "draw", kept_draw),
        patch.object(GaussianStream, "add_", kept_noise),
    ):
        yield


@contextmanager
def replaying(tape: Tape) -> Iterator[None]:
    """Draw the same real units, and the same noise on as many coordinates; the rest is fresh."""
    draws = iter(tape.draws)
    noises = iter(tape.noise)

    def same_draw(self: PrivateLoader, step: int) -> Any:
        fresh = draw(self, step)
        return numpy.concatenate([next(draws), fresh[fresh >= self.units]])

    def same_noise(self: GaussianStream, flat: Any, std: float, *, over: float = 1.0) -> Any:
        noise = add_(self, torch.zeros_like(flat), std)
        known = next(noises)
        noise[: len(known)] = known
        return flat.add_(noise).div_(over)

    with (
        patch.object(PrivateLoader, "draw", same_draw),
        patch.object(GaussianStream, "add_", same_noise),
    ):
        yield
