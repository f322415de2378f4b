"""The kinds of attacks, each in a package of its own with a `command.py`."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, cast

from dppipe.errors import UsageError

if TYPE_CHECKING:
    from dppipe.audit.attacks.options import AttackOptions
    from dppipe.audit.attacks.report import Report
    from dppipe.audit.attacks.victim import Victim

    Attack = Callable[[Victim, AttackOptions], Report]

KINDS = {
    "membership": ("rmia", "loss", "shadow", "lira", "lira-offline"),
    "inversion": ("class", "generator", "attribute"),
    "gradients": ("all", "exact", "distance", "cosine"),
}
"""The kinds and their methods, the default first."""


def checked_method(kind: str, method: str | None) -> str:
    """Return the method of a kind, or its default; refuse a name that isn't known."""
    if kind not in KINDS:
        raise UsageError(_unknown("--kind", kind, tuple(KINDS)))
    if method is None:
        return KINDS[kind][0]
    if method not in KINDS[kind]:
        raise UsageError(_unknown(f"--kind {kind} --method", method, KINDS[kind]))
    return method


def attack_of(kind: str) -> Attack:
    """Return the function `attack(victim, options)` of a kind."""
    module: Any = importlib.import_module(f"dppipe.audit.attacks.{kind}.command")
    return cast("Attack", module.attack)


def _unknown(option: str, got: str, known: tuple[str, ...]) -> str:
    near = get_close_matches(got, known, n=1)
    guess = f" Did you mean {near[0]!r}?" if near else ""
    return f"attack: {option}: expected one of {', '.join(known)}, got {got!r}.{guess}"
