"""Epsilon of ledger rows, computed by dp_accounting."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from typing import Any

import dp_accounting as dp
from dp_accounting import pld, rdp


def epsilon_of(rows: list[dict[str, Any]], delta: float, accountant: str) -> float | None:
    """Compute the epsilon of ledger rows with dp_accounting; None where it has no bound."""
    counts: Counter[str] = Counter()
    for row in rows:
        counts[json.dumps(row["event"], sort_keys=True)] += row["count"]
    return _composed(tuple(counts.items()), delta, accountant, rows[0]["relation"])


@cache
def _composed(
    counts: tuple[tuple[str, int], ...], delta: float, accountant: str, relation: str
) -> float | None:
    made = pld.PLDAccountant() if accountant == "pld" else rdp.RdpAccountant()
    halved = relation == "replace_one" and accountant == "rdp"
    if halved:
        made = rdp.RdpAccountant(neighboring_relation=dp.NeighboringRelation.REPLACE_ONE)
    elif relation == "replace_one":
        return None
    for event, count in counts:
        if count:
            made.compose(dp.SelfComposedDpEvent(_event(json.loads(event), halved=halved), count))
    return float(made.get_epsilon(delta))


def _event(data: dict[str, Any], *, halved: bool) -> Any:
    options = {name: value for name, value in data.items() if name not in ("type", "event")}
    if "event" in data:
        options["event"] = _event(data["event"], halved=halved)
    if halved and "noise_multiplier" in options:
        options["noise_multiplier"] /= (
            2  # dp_accounting's RDP doesn't double the sensitivity itself
        )
    return getattr(dp, data["type"])(**options)
