"""Built-in kinds are written as plugins are: moved to `plugins/` under another name, each works and passes every check."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import dppipe
from dppipe.plugin_kit.checking import CheckedKind
from dppipe.spec.families import FAMILIES
from dppipe.spec.registry import built_in_kinds, load_built_in

Check = Callable[[str], CheckedKind]

PACKAGE = Path(dppipe.__file__).parent
QUICK = ("clipping", "noise", "schedule")


def _moves(block: str) -> list[tuple[str, str]]:
    family = FAMILIES[block]
    kinds = [(kind, load_built_in(family, kind)) for kind in built_in_kinds(family)]
    return [(block, kind) for kind, cls in kinds if not any(field.is_required() for field in cls.model_fields.values())]


MOVES = [
    pytest.param(block, kind, marks=() if block in QUICK else pytest.mark.slow)
    for block, family in FAMILIES.items()
    if family.takes_plugins
    for block, kind in _moves(block)
]


@pytest.mark.parametrize(("block", "kind"), MOVES)
def test_a_built_in_kind_passes_as_a_plugin(block: str, kind: str, check: Check) -> None:
    file = PACKAGE.joinpath(*FAMILIES[block].package.split(".")[1:], f"{kind}.py")
    checked = check(file.read_text().replace(f'kind="{kind}"', f'kind="moved_{kind}"'))
    assert (checked.block, checked.kind) == (block, f"moved_{kind}")
    assert not checked.faults
