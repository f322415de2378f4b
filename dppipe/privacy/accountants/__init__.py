"""Accountants: from events to what they cost. One kind a file, named after it; `base` is the contract."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dppipe.lazy import lazy_names

if TYPE_CHECKING:
    from dppipe.privacy.accountants.base import Accountant, Certificate, Estimate
    from dppipe.privacy.accountants.pld import Pld
    from dppipe.privacy.accountants.rdp import Rdp

__all__ = ["Accountant", "Certificate", "Estimate", "Pld", "Rdp"]

__getattr__ = lazy_names(
    __name__, {"Accountant": ".base", "Certificate": ".base", "Estimate": ".base", "Pld": ".pld", "Rdp": ".rdp"}
)
