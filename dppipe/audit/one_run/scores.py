"""The score of each canary: what all releases so far say about its coin.

A score is the logarithm of the likelihood ratio of what was released, under the claimed sampler
and noise. Where each step draws anew, the logarithms of steps add up. Where an epoch uses each unit
once, an epoch's ratio is the mean over its steps. Score and guesses may be any function of what was
released: another one has less power, and is as valid. So a crash that loses some releases costs
power alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from dppipe.audit.one_run.log_ratios import log_ratio, mixed

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


@dataclass
class Scores:
    """The running scores of m canaries."""

    number: int
    epoch: int = 0
    """The steps of an epoch that uses each unit once; 0 where each step draws anew."""
    replaces: bool = False
    """Whether a coin decides between +c and -c, and not between c and nothing."""
    laplace: bool = False
    steps: int = 0
    """How many releases were seen."""
    total: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    _open: list[NDArray[np.float64]] = field(default_factory=list)
    """Of the epoch under way: ln of the sum of the ratios so far, for +c and for -c."""
    _seen: int = 0
    """How many of its steps were seen."""

    def __post_init__(self) -> None:
        if not len(self.total):
            self.total = np.zeros(self.number)

    def add(self, noisy: ArrayLike, *, shift: ArrayLike, noise: float, rate: float) -> None:
        """Add a release: the noisy sum along each canary's direction, `[m]`."""
        ratios = [log_ratio(noisy, shift=shift, noise=noise, laplace=self.laplace)]
        if self.replaces:
            opposite = -np.asarray(shift, dtype=np.float64)
            ratios.append(log_ratio(noisy, shift=opposite, noise=noise, laplace=self.laplace))
        self.steps += 1
        if not self.epoch:
            self.total += _difference([mixed(ratio, rate=rate) for ratio in ratios])
            return
        if self._seen:
            ratios = [np.logaddexp(a, b) for a, b in zip(self._open, ratios, strict=True)]
        self._open = ratios
        self._seen += 1
        if self._seen == self.epoch:
            self.close_epoch()

    def close_epoch(self) -> None:
        """Add the epoch under way; a step of it that wasn't seen has a ratio of 1."""
        if not self._seen:
            return
        share = self._seen / self.epoch
        means = [mixed(summed - np.log(self._seen), rate=share) for summed in self._open]
        self.total += _difference(means)
        self._open = []
        self._seen = 0

    def to_data(self) -> dict[str, Any]:
        """Return the scores as plain data, to go on from."""
        return {
            "steps": self.steps,
            "scores": self.total.tolist(),
            "epoch_seen": self._seen,
            "epoch_open": [part.tolist() for part in self._open],
        }

    def restore(self, data: dict[str, Any]) -> Self:
        """Go on from saved scores; an epoch that was cut off is closed."""
        self.steps = int(data["steps"])
        self.total = np.array(data["scores"], dtype=np.float64)
        self._open = [np.array(part, dtype=np.float64) for part in data["epoch_open"]]
        self._seen = int(data["epoch_seen"])
        if self.total.shape != (self.number,):
            raise ValueError("another number of scores")
        self.close_epoch()
        return self


def _difference(parts: list[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Return the ratio with a canary or, where it is replaced, that of both."""
    return parts[0] if len(parts) == 1 else parts[0] - parts[1]
