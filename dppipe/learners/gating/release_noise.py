"""The noise on what is released: from the stream of its kind, correlated between steps or not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dppipe.privacy.events.multipliers import mechanism_of

if TYPE_CHECKING:
    from dppipe.learners.gating.bounded import Bounded
    from dppipe.learners.gating.sources import NoiseSources
    from dppipe.noise.process import NoiseProcess, NoiseState
    from dppipe.privacy.release import Release
    from dppipe.randomness.gaussian import NoiseSource
    from dppipe.randomness.streams import Purpose

_PURPOSES: dict[str, Purpose] = {"step": "noise", "statistics": "statistics"}
"""The secret stream of each kind of release; all others share one."""


class ReleaseNoise:
    """Adds the noise of one release after another.

    Guarantee: the state of a noise process stays in memory. Together with the released values it
    would reveal the sums that were noised.
    """

    def __init__(self, sources: NoiseSources, process: NoiseProcess) -> None:
        self._sources = sources
        self._process = process
        self._state: NoiseState = None
        self._has_state = False

    def add_(self, release: Release, bounded: Bounded, *, std: float) -> None:
        """Add noise to a value, and to what is released beside it."""
        purpose = _PURPOSES.get(release.what, "release")
        stream = self._sources.get(purpose, mechanism_of(release.event))
        if release.what == "step":
            self._add_to_step(release, bounded, std=std, stream=stream)
        else:
            stream.add_(bounded.value, std=std, over=bounded.over)
        beside = bounded.beside
        if beside is not None:
            own = beside.noise_multiplier * beside.sensitivity
            self._sources.get("count").add_(beside.value, std=own, over=bounded.over)

    def _add_to_step(
        self, release: Release, bounded: Bounded, *, std: float, stream: NoiseSource
    ) -> None:
        if not self._has_state:
            self._state = self._process.init(bounded.value)
            self._has_state = True
        self._state = self._process.add_(
            bounded.value,
            self._state,
            place=(int(release.facts["step"]) - 1) % release.covers,
            std=std,
            over=bounded.over,
            stream=stream,
        )
