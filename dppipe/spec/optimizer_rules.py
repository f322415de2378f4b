"""Rules of the optimizer with other blocks.

An optimizer that corrects for the noise needs the variance that it really has: one number for all
coordinates, and for one step by itself.
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


def optimizer_problems(spec: Spec) -> Iterator[Problem]:
    """Yield what an optimizer lacks, or can't be beside."""
    if spec.optimizer is None:
        if spec.model.kind != "class_path":
            message = (
                "expected the name of an optimizer or a block with `kind`, got nothing. Add one, "
                "such as {kind: sgd, lr: 0.1}."
            )
            yield Problem(("optimizer",), message)
        return
    if spec.optimizer.uses_noise and spec.budget != "none":
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
