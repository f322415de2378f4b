"""What the rules of objective perturbation share."""

from __future__ import annotations

from collections.abc import Mapping

_UNKNOWN = "the determinant of the Hessian adds to the loss; under pld and rdp it is bounded"

WHY_NOT: Mapping[str, str] = dict.fromkeys(("tcdp", "zcdp", "gdp", "advanced", "basic"), _UNKNOWN)
"""Why accountants have no proof."""
