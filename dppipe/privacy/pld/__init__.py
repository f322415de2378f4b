"""Privacy loss distributions: dppipe's own, which bound their own round-off (`PROOF.md`).

The rest of dppipe imports these names from here, and nothing else of the package:
- `compose` turns counted events into privacy curves;
- `compose_equal` does so for mechanisms of which only (epsilon, delta) is known;
- `followed` returns epsilon along a run, at hundreds of its steps;
- `starting_interval` says how fine the grid of a composition will be, before it is computed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dppipe.lazy import lazy_names

if TYPE_CHECKING:
    from dppipe.privacy.pld.curves import starting_interval
    from dppipe.privacy.pld.entry import compose, compose_equal
    from dppipe.privacy.pld.walk import followed

__all__ = ["compose", "compose_equal", "followed", "starting_interval"]

__getattr__ = lazy_names(
    __name__,
    {
        "compose": ".entry",
        "compose_equal": ".entry",
        "followed": ".walk",
        "starting_interval": ".curves",
    },
)
