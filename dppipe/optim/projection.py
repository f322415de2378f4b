"""Projection: after each update the weights are put back into a ball.

It sees weights after updates, which are released values, so it costs no privacy. A bounded set of
weights is what the analysis of DP-SGD for convex losses assumes (Bassily, Smith and Thakurta 2014,
Algorithm 1), and it keeps noise from carrying the weights far away.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dppipe.component import Field, Options

if TYPE_CHECKING:
    from torch.optim import Optimizer as TorchOptimizer


class Projection(Options):
    """A ball about 0 that all trained parameters together stay in."""

    radius: float = Field(
        gt=0, description="The largest Euclidean norm of all trained parameters together."
    )

    def follow(self, optimizer: TorchOptimizer) -> None:
        """Project an optimizer's parameters after each of its updates."""

        def project(optimizer: TorchOptimizer, args: Any, kwargs: Any) -> None:
            project_(optimizer, radius=self.radius)

        optimizer.register_step_post_hook(project)


def project_(optimizer: TorchOptimizer, *, radius: float) -> None:
    """Shrink all parameters of an optimizer by one factor, if their joint norm exceeds a radius."""
    import torch

    with torch.no_grad():
        parameters = []
        for group in optimizer.param_groups:
            parameters += group["params"]
        if not parameters:
            return
        # In float64: squares of large float32 weights overflow.
        norms = [parameter.double().norm() for parameter in parameters]
        first = norms[0]
        norm = torch.stack([each.to(first.device) for each in norms]).norm()
        factor = torch.where((norm > radius) & norm.isfinite(), radius / norm, 1.0)
        for parameter in parameters:
            parameter.mul_(factor.to(parameter.device, parameter.dtype))
