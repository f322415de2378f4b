"""Rules of an optimizer that corrects for the noise.

It needs the variance that the noise really has: one number for all coordinates, and for one step by
itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dppipe.clipper_abilities import transforms
from dppipe.errors import Problem

if TYPE_CHECKING:
    from dppipe.clipping.base import Clipper
    from dppipe.noise.base import NoiseSchedule
    from dppipe.spec.spec import Spec


def noise_is_known(spec: Spec) -> Iterator[Problem]:
    """Yield what gives the noise another size than an optimizer can correct for."""
    if spec.optimizer is not None and spec.optimizer.uses_noise and spec.budget != "none":
        yield from unknown_noise(spec.clipping, spec.noise, optimizer=spec.optimizer.kind)


def unknown_noise(clipping: Clipper, noise: NoiseSchedule, *, optimizer: str) -> Iterator[Problem]:
    """Yield why the noise of a step isn't one known number, which such an optimizer needs."""
    clipper = clipping.kind
    if transforms(clipping):
        yield Problem(
            ("clipping", "kind"),
            f"expected noise of one size beside optimizer {optimizer!r}, which corrects for it, "
            f"got {clipper!r}, which gives each coordinate its own. Take kind: flat, or "
            "optimizer: adam.",
        )
    if noise.block > 1:
        yield Problem(
            ("noise", "kind"),
            f"expected independent noise beside optimizer {optimizer!r}, which corrects for it, "
            f"got {noise.kind!r}, whose noise is correlated between steps. Take kind: constant, or "
            "optimizer: adam.",
        )
