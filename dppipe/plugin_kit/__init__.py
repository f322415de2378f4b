"""The plugin kit: what kinds there are, a start for a new one, and checks that try to break it.

`listing.py` is `dppipe plugins list`, `scaffold.py` is `new`, `checking.py` is `check`. Read next:
`checks/table.py`; a new check is one function in the file of its family.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dppipe.lazy import lazy_names

if TYPE_CHECKING:
    from dppipe.plugin_kit.checking import CheckedKind, Outcome, check_file, check_folder
    from dppipe.plugin_kit.listing import KindFacts, OptionFacts, list_kinds
    from dppipe.plugin_kit.scaffold import write_plugin

__all__ = [
    "CheckedKind",
    "KindFacts",
    "OptionFacts",
    "Outcome",
    "check_file",
    "check_folder",
    "list_kinds",
    "write_plugin",
]

__getattr__ = lazy_names(
    __name__,
    {
        "CheckedKind": ".checking",
        "KindFacts": ".listing",
        "OptionFacts": ".listing",
        "Outcome": ".checking",
        "check_file": ".checking",
        "check_folder": ".checking",
        "list_kinds": ".listing",
        "write_plugin": ".scaffold",
    },
)
