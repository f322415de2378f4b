"""LiRA, offline: how unlikely is a confidence under models without the record (Carlini et al.
2022)?

It needs no model that was trained on the record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy
from scipy import stats

from dppipe.audit.attacks.membership.lira import centre_and_spread

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[numpy.float64]


def lira_offline_scores(
    confidences: Floats, shadows: Floats, inside: NDArray[numpy.bool_]
) -> Floats:
    """Return ln Phi((phi - mean_out) / std_out), `[n]`; arguments are those of `lira_scores`."""
    mean, spread = centre_and_spread(shadows, ~inside)
    return numpy.asarray(stats.norm.logcdf((confidences - mean) / spread))
