"""The learners of `tests/learners/own`, as if they were the package's own."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import dppipe.learners
from dppipe.spec.kinds import registry

OWN = Path(__file__).parent / "own"
KINDS = sorted(file.stem for file in OWN.glob("*.py"))


@contextmanager
def own_kinds() -> Iterator[None]:
    """Let specs name the tests' learners."""
    usual = registry.built_in_kinds

    def with_ours(family: Any) -> list[str]:
        return sorted([*usual(family), *(KINDS if family.block == "learner" else [])])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dppipe.learners, "__path__", [*dppipe.learners.__path__, str(OWN)])
        patch.setattr(registry, "built_in_kinds", with_ours)
        yield
    for kind in KINDS:
        sys.modules.pop(f"dppipe.learners.{kind}", None)
