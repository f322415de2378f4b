"""Every registered kind, built-in or plugin, passes the checks that `dppipe plugins check` runs on a plugin."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from contracts.options import variants

import dppipe
from dppipe.plugin_kit import checking
from dppipe.plugin_kit.checking import all_checks, registered_trial, run_checks
from dppipe.spec.kinds.families import FAMILIES
from dppipe.spec.kinds.registry import Registry

REGISTRY = Registry(Path(dppipe.__file__).parents[1] / "plugins")
KINDS = [(block, kind) for block in FAMILIES for kind in REGISTRY.kinds(block)]
UNREMARKABLE = [
    "its docstring says what it does",
    "a run of one step has the noise",
    "it has parameters to train",
    "weights come from the seed",
    "records have the shape and type",
    "the same records come in the same order",
]
"""Checks that only remark on what a plugin may do and no kind of this repository does."""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    # It starts another process, and has tests of its own.
    quick = [each for each in all_checks() if "pickles" not in each.title]
    monkeypatch.setattr(checking, "all_checks", lambda: quick)
    return tmp_path


@pytest.mark.parametrize(("block", "kind"), KINDS)
def test_a_registered_kind_passes_every_check_of_its_family(
    block: str, kind: str, here: Path
) -> None:
    trial = registered_trial(block, kind, registry=REGISTRY, variants=variants(block, kind, here))
    outcomes = run_checks(trial)
    assert len(outcomes) >= 8
    assert [outcome for outcome in outcomes if not outcome.ok] == []
    remarked = [
        outcome
        for outcome in outcomes
        if outcome.check.startswith(tuple(UNREMARKABLE)) and outcome.remark
    ]
    assert [one for one in remarked if not one.remark.startswith("adaptive")] == []


def test_every_family_that_takes_plugins_has_checks_of_its_own() -> None:
    checked = {check.block for check in all_checks()}
    assert {block for block, family in FAMILIES.items() if family.takes_plugins} <= checked
    titles = [check.title for check in all_checks()]
    assert all(any(title.startswith(start) for title in titles) for start in UNREMARKABLE)
