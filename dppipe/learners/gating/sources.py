"""The secret sources of noise of one run: one stream with a key of its own for each purpose."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from dppipe.errors import PrivacyRefusal
from dppipe.noise.process import Independent, NoiseProcess
from dppipe.randomness.exponential import ExponentialStream
from dppipe.randomness.gaussian import GaussianStream, NoiseSource
from dppipe.randomness.gumbel import GumbelStream
from dppipe.randomness.laplace import LaplaceStream
from dppipe.randomness.median import MedianStream
from dppipe.randomness.spherical import SphericalStream
from dppipe.randomness.streams import Purpose, stream_key

if TYPE_CHECKING:
    from dppipe.noise.base import NoiseSchedule

Selecting = Literal["exponential", "permute_and_flip"]
"""The mechanisms that select: by Gumbel noise, or by exponential noise."""


@dataclass
class NoiseSources:
    """Makes each stream when it is first asked for; keys are never shown.

    Guarantee: streams for different purposes have different keys.
    """

    seed: int | None = None
    """A public seed for tests: a run that has one protects nobody."""
    secure: bool = False
    """Whether Gaussian noise is added on a common grid."""
    _gumbel: GumbelStream | None = field(default=None, repr=False)
    _median: MedianStream | None = field(default=None, repr=False)
    _exponential: ExponentialStream | None = field(default=None, repr=False)
    _streams: dict[tuple[Purpose, str], NoiseSource] = field(default_factory=dict, repr=False)

    def get(self, purpose: Purpose, mechanism: str = "gaussian") -> NoiseSource:
        """Return the stream for a purpose, with noise of this mechanism."""
        place = (purpose, mechanism)
        if place not in self._streams:
            self._streams[place] = self._make(purpose, mechanism)
        return self._streams[place]

    def selection(self, mechanism: Selecting = "exponential") -> GumbelStream | ExponentialStream:
        """Return the stream that selections by this mechanism draw from."""
        if mechanism == "permute_and_flip":
            if self._exponential is None:
                self._exponential = ExponentialStream(stream_key("flips", seed=self.seed))
            return self._exponential
        if self._gumbel is None:
            self._gumbel = GumbelStream(stream_key("selection", seed=self.seed))
        return self._gumbel

    def median(self) -> MedianStream:
        """Return the stream that medians are chosen by."""
        if self._median is None:
            self._median = MedianStream(stream_key("median", seed=self.seed))
        return self._median

    def _make(self, purpose: Purpose, mechanism: str) -> NoiseSource:
        key = stream_key(purpose, seed=self.seed)
        if mechanism == "laplace":
            return LaplaceStream(key)
        if mechanism == "spherical":
            return SphericalStream(key)
        if mechanism == "gaussian":
            return GaussianStream(key, secure=self.secure)
        raise PrivacyRefusal(
            f"noise: expected gaussian, laplace or spherical, got {mechanism!r}. No source "
            "is known for it."
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}(secret, secure={self.secure})"


def noise_process(noise: NoiseSchedule) -> NoiseProcess:
    """Return the process of a schedule: its own only where it states a block of steps.

    A plan refuses a block that comes from outside the package (`dppipe.spec.combinations`).
    """
    return noise.process() if noise.block > 1 else Independent()
