"""What models of images ask of their inputs."""

from __future__ import annotations

from collections.abc import Sequence

from dppipe.errors import Problem, SpecError


def require_image(input_shape: Sequence[int], *, at_least: int = 1) -> None:
    """Refuse inputs that aren't channels x height x width, or are smaller than a model takes."""
    if len(input_shape) != 3 or min(input_shape[1:]) < at_least:
        shape = " x ".join(map(str, input_shape))
        message = (
            f"expected inputs of channels x height x width, at least {at_least} high and wide, got "
            f"{shape}. Use an mlp."
        )
        raise SpecError([Problem(("model", "kind"), message)])
