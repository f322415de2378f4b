"""The clipping bound, enforced after any clipper: the clipped sum's sensitivity rests on this file.

Whatever a clipper returns, the factor that is applied never lets a group of one example's gradient
exceed that group's bound. Read next: `engine.py`, which applies the factors.
"""

from __future__ import annotations

import torch
from torch import Tensor

from dppipe.engine.contracts import Factors
from dppipe.errors import UsageError

NORM_FLOOR = 1e-12
"""The smallest number that a bound is divided by; no factor is larger than one over it.

So what underflowed on the way to the norm of a formed gradient stays far below the bound, and no
value of a row overflows when it is scaled (`gradients/ROUNDING.md`, lemma 9).
"""


def bounded_factors(
    clipper: Factors, norms: Tensor, bounds: Tensor
) -> Tensor:  # [B, G], [G] -> [B, G]
    """Ask the clipper for one example's factors at a time, then enforce the bounds."""
    if not norms.shape[0]:
        return norms
    # On copies: a clipper that works in place must not change the numbers its factors are held to.
    norms_seen, bounds_seen = norms.clone(), bounds.clone()
    if takes_many_rows(clipper):
        factors = clipper.factors(norms_seen, bounds_seen)
    else:
        factors = torch.func.vmap(clipper.factors, in_dims=(0, None))(norms_seen, bounds_seen)
    if factors.shape != norms.shape:
        # Another shape would broadcast, and one example's factor would reach the others.
        raise UsageError(
            f"clipping: expected one factor for each of {norms.shape[1]} groups of an example, "
            f"got shape {tuple(factors.shape[1:])}. Fix factors()."
        )
    return enforce_bounds(factors, norms, bounds)


def takes_many_rows(clipper: Factors) -> bool:
    """Return whether a clipper computes each factor from its own norm and bound alone.

    Then it can be called with all examples at once, which is faster. Only clippers of the package
    are believed: a plugin's `factors` could let one example's factor depend on the others.
    """
    kind = type(clipper)
    ours = kind.__module__.startswith("dppipe.clipping.")
    return ours and bool(getattr(kind, "elementwise", False))


def enforce_bounds(
    factors: Tensor, norms: Tensor, bounds: Tensor
) -> Tensor:  # [B, G], [B, G], [G] -> [B, G]
    """Limit factors so that no example's group exceeds its bound.

    Guarantees, for norms that aren't too low (`gradients/ROUNDING.md`):
    - Factor times norm lies in [0, bound] for every example and group, whatever the clipper
      returned.
    - An example whose norm in a group isn't finite contributes nothing to the group.
    - So one example changes the clipped sum by at most the Euclidean norm of `bounds` under
      `zero_out` and `add_remove`, and by at most twice that under `replace_one`.
    """
    ceiling = (bounds / norms.clamp(min=NORM_FLOOR)).clamp(max=1 / NORM_FLOOR)
    # Rounding may raise a subnormal quotient by half of itself or more.
    ceiling = torch.where(ceiling < torch.finfo(ceiling.dtype).tiny, 0, ceiling)
    safe = torch.where(factors.isfinite(), factors, 0).clamp(min=0).minimum(ceiling)
    return torch.where(norms.isfinite(), safe, 0)
