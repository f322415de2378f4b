"""Accountants: from events to what they cost.

One kind a file, named after it; `base` is the contract.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dppipe.lazy import lazy_names

if TYPE_CHECKING:
    from dppipe.privacy.accountants.advanced import Advanced
    from dppipe.privacy.accountants.base import Accountant, Certificate, Estimate
    from dppipe.privacy.accountants.basic import Basic
    from dppipe.privacy.accountants.gdp import Gdp
    from dppipe.privacy.accountants.pld import Pld
    from dppipe.privacy.accountants.rdp import Rdp
    from dppipe.privacy.accountants.tcdp import Tcdp
    from dppipe.privacy.accountants.zcdp import Zcdp

__all__ = [
    "Accountant",
    "Advanced",
    "Basic",
    "Certificate",
    "Estimate",
    "Gdp",
    "Pld",
    "Rdp",
    "Tcdp",
    "Zcdp",
]

__getattr__ = lazy_names(
    __name__,
    {
        "Accountant": ".base",
        "Advanced": ".advanced",
        "Basic": ".basic",
        "Certificate": ".base",
        "Estimate": ".base",
        "Gdp": ".gdp",
        "Pld": ".pld",
        "Rdp": ".rdp",
        "Tcdp": ".tcdp",
        "Zcdp": ".zcdp",
    },
)
