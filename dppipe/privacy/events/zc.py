"""A mechanism of which only its zero-concentrated differential privacy is known.

Guarantee: (xi, rho)-zCDP bounds the Renyi divergence at every order a by xi + rho a (Bun and
Steinke 2016, definition 1.1), and converts to (epsilon, delta) as any such bound does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dppipe.privacy.budget import Relation
from dppipe.privacy.events.base import EventRule
from dppipe.privacy.proofs import EVERY_RELATION, Proof

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_UPWARD = 1 + 2.0**-46
"""More than the conversion is rounded by."""


def _parts(event: Any) -> tuple[()] | None:
    return () if event.rho == 0 and event.xi == 0 else None


def _without_constant(event: Any, relation: Relation) -> bool:
    return bool(event.xi == 0)


def _divergences(
    event: Any, relation: Relation, orders: NDArray[np.float64]
) -> NDArray[np.float64]:
    rho = float(event.rho)
    return float(event.xi) + rho * orders


def _one_step(event: Any, relation: Relation, delta: float) -> float:
    from dppipe.privacy.rdp.concentrated import zcdp_epsilon

    return (float(event.xi) + zcdp_epsilon(event.rho, delta)) * _UPWARD


RULE = EventRule(
    name="ZCDpEvent",
    fields={"rho": "share", "xi": "share"},
    meaning=(
        "A mechanism whose Renyi divergence at every order a is at most `xi` + `rho` a, under the "
        "run's own relation: nothing is doubled under `replace_one`."
    ),
    proofs=(
        Proof(
            accountants=("rdp",),
            relations=EVERY_RELATION,
            source="Bun and Steinke 2016, definition 1.1",
            filters=("rdp",),
        ),
        Proof(
            accountants=("zcdp", "tcdp"),
            relations=EVERY_RELATION,
            source="Bun and Steinke 2016, lemma 1.7",
            filters=("zcdp", "tcdp"),
            case="xi 0",
            holds=_without_constant,
        ),
        Proof(
            accountants=("basic", "advanced"),
            relations=EVERY_RELATION,
            source="Canonne, Kamath and Steinke 2020, proposition 12, for one step",
            filters=("advanced",),
        ),
    ),
    parts=_parts,
    divergences=_divergences,
    rho=lambda event, relation: float(event.rho),
    one_step=_one_step,
)
