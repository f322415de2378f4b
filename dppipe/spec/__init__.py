"""The spec: YAML with positions, strictly typed, and the registry of everything it can name.

`load_spec` reads a file and `Spec` is the result. Read next: `load.py`, then `spec.py`,
`registry.py` and `rules/`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dppipe.lazy import lazy_names

if TYPE_CHECKING:
    from dppipe.spec.kinds.registry import Registry
    from dppipe.spec.load import load_spec, spec_from_text
    from dppipe.spec.schema import json_schema
    from dppipe.spec.spec import Spec, spec_hash
    from dppipe.spec.train import Train

__all__ = ["Registry", "Spec", "Train", "json_schema", "load_spec", "spec_from_text", "spec_hash"]

__getattr__ = lazy_names(
    __name__,
    {
        "Registry": ".kinds.registry",
        "Spec": ".spec",
        "Train": ".train",
        "json_schema": ".schema",
        "load_spec": ".load",
        "spec_from_text": ".load",
        "spec_hash": ".spec",
    },
)
