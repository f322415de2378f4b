"""The bound on one example's share, enforced after any clipper: the sensitivity of the clipped sum rests on this file.

Whatever a clipper returns, the factor that is applied never lets a group of one example's gradient exceed that group's bound.
Read next: `engine.py`, which applies the factors.
"""

from __future__ import annotations

import torch
from torch import Tensor

from dppipe.engine.contracts import Factors
from dppipe.errors import UsageError

NORM_FLOOR = 1e-12
"""No norm is divided by less, and no factor is more than one over it: what underflowed on the way to the norm of a formed
gradient stays far below the bound, and no value that a row holds overflows when it is scaled (`ROUNDING.md`, lemma 9)."""


def bounded_factors(
    clipper: Factors, norms: Tensor, bounds: Tensor
) -> Tensor:  # [B, G], [G] -> [B, G]
    """Ask the clipper for one example's factors at a time, then enforce the bounds."""
    if not norms.shape[0]:
        return norms
    # On copies: a clipper that works in place would change the very numbers that its factors are held to.
    factors = torch.func.vmap(clipper.factors, in_dims=(0, None))(norms.clone(), bounds.clone())
    if factors.shape != norms.shape:
        # Another shape would broadcast against the norms, and one example's factor would reach the others.
        raise UsageError(
            f"clipping: expected one factor for each of {norms.shape[1]} groups of an example, got shape "
            f"{tuple(factors.shape[1:])}. Fix factors()."
        )
    return enforce_bounds(factors, norms, bounds)


def enforce_bounds(
    factors: Tensor, norms: Tensor, bounds: Tensor
) -> Tensor:  # [B, G], [B, G], [G] -> [B, G]
    """Limit factors so that no example's group exceeds its bound.

    Guarantee: for norms that aren't too low (`ROUNDING.md`), factor times norm lies in [0, bound] for every example and group,
    whatever the clipper returned; an example whose norm in a group is not finite contributes nothing to it. So one example
    changes the clipped sum by at most the Euclidean norm of `bounds` under `zero_out` and `add_remove`, and by at most twice that
    under `replace_one`.
    """
    ceiling = (bounds / norms.clamp(min=NORM_FLOOR)).clamp(max=1 / NORM_FLOOR)
    # Below the normal numbers a quotient may be rounded up by half and more of itself.
    ceiling = torch.where(ceiling < torch.finfo(ceiling.dtype).tiny, 0, ceiling)
    safe = torch.where(factors.isfinite(), factors, 0).clamp(min=0).minimum(ceiling)
    return torch.where(norms.isfinite(), safe, 0)
