"""Epsilon and delta of ledger rows, computed by dp_accounting."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from typing import Any

import dp_accounting as dp
from dp_accounting import pld, rdp


def epsilon_of(rows: list[dict[str, Any]], delta: float, accountant: str) -> float | None:
    """Compute the epsilon of ledger rows with dp_accounting; None where it has no bound."""
    made = _composed(_counts(rows), accountant, rows[0]["relation"])
    return None if made is None else float(made.get_epsilon(delta))


def delta_of(rows: list[dict[str, Any]], epsilon: float, accountant: str) -> float | None:
    """Compute the delta of ledger rows with dp_accounting; None where it has no bound."""
    made = _composed(_counts(rows), accountant, rows[0]["relation"])
    return None if made is None else float(made.get_delta(epsilon))


def _counts(rows: list[dict[str, Any]]) -> tuple[tuple[str, int], ...]:
    counts: Counter[str] = Counter()
    for row in rows:
        counts[json.dumps(row["event"], sort_keys=True)] += row["count"]
    return tuple(counts.items())


@cache
def _composed(counts: tuple[tuple[str, int], ...], accountant: str, relation: str) -> Any:
    """Return an accountant of dp_accounting to which all events were told."""
    made = pld.PLDAccountant() if accountant == "pld" else rdp.RdpAccountant()
    halved = relation == "replace_one" and accountant == "rdp"
    if halved:
        made = rdp.RdpAccountant(neighboring_relation=dp.NeighboringRelation.REPLACE_ONE)
    elif relation == "replace_one":
        return None
    for event, count in counts:
        if count:
            made.compose(dp.SelfComposedDpEvent(_event(json.loads(event), halved=halved), count))
    return made


def _event(data: dict[str, Any], *, halved: bool) -> Any:
    options = {name: value for name, value in data.items() if name not in ("type", "event")}
    if "event" in data:
        options["event"] = _event(data["event"], halved=halved)
    if halved and "noise_multiplier" in options:
        options["noise_multiplier"] /= (
            2  # dp_accounting's RDP doesn't double the sensitivity itself
        )
    return getattr(dp, data["type"])(**options)
