"""Renyi divergences of objective perturbation (`events/OBJECTIVE.md`, lemma 10).

z is the noise's standard deviation over the bound on one record's gradient, s = 1/z, and `shift`
what the determinant adds to every loss at most.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import special

if TYPE_CHECKING:
    from numpy.typing import NDArray

_RAISED = 2.0**-46
"""Relative, on the logarithm of a moment and on its parts."""


def one_signed_divergences(
    z: float, shift: float, orders: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the divergences where the loss is at most `shift` + max(0, s^2/2 + s Z)."""
    grown = orders * (orders - 1) / (2 * z**2)
    moment = np.logaddexp(special.log_ndtr(-0.5 / z), grown + special.log_ndtr((orders - 0.5) / z))
    return _divergence(moment, grown, shift, orders)


def two_signed_divergences(
    z: float, shift: float, orders: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the divergences where the loss is at most `shift` + s^2/2 + s |Z|."""
    grown = orders * (orders - 1) / (2 * z**2)
    moment = grown + np.log(2) + special.log_ndtr((orders - 1) / z)
    return _divergence(moment, grown, shift, orders)


def softmax_divergences(
    z: float, shift: float, classes: int, orders: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the divergences where the loss is at most the largest of K-1 Gaussian losses and 0."""
    grown = orders * (orders - 1) / (2 * z**2)
    moment = np.logaddexp(0.0, np.log(classes - 1) + grown)
    return _divergence(moment, grown, shift, orders)


def _divergence(
    moment: NDArray[np.float64],
    grown: NDArray[np.float64],
    shift: float,
    orders: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return the divergence of a logarithmic moment; its round-off is divided by very little."""
    return np.asarray(shift + (moment + _RAISED * (1 + grown)) / (orders - 1))
