"""Budgets across runs: one dataset, one budget, however many runs, crashes and experiments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dppipe.lazy import lazy_names

if TYPE_CHECKING:
    from dppipe.budgets.scopes import Scope
    from dppipe.budgets.store import Store

__all__ = ["Scope", "Store"]

__getattr__ = lazy_names(__name__, {"Scope": ".scopes", "Store": ".store"})
