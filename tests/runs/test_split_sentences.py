"""What a statement says of each split hangs on what is known of that split, and on nothing else."""

from __future__ import annotations

import dataclasses
import json
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from written_runs import write_run

from dppipe.clipping.flat import Flat
from dppipe.noise.constant import Constant
from dppipe.planning.parts import PrivateParts
from dppipe.planning.privacy_plan import plan_privacy
from dppipe.privacy.accountants.rdp import Rdp
from dppipe.privacy.budget import Budget
from dppipe.runs.directory import RunDirectory
from dppipe.runs.statement.exclusions import not_covered
from dppipe.runs.statement.statement import Statement
from dppipe.runs.statement.writing import statement_of
from dppipe.sampling.poisson import Poisson

PARTS = PrivateParts(
    Poisson(sample_rate=0.1),
    Flat(),
    Constant(noise_multiplier=1.0),
    Rdp(),
    Budget(epsilon=50.0, delta=1e-5),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


def statement(folder: Path, *, holdout: Any, **known: Any) -> Statement:
    """Return the statement of a run that has looked at its splits as stated."""
    path = folder / f"run{len(list(folder.iterdir()))}"
    plan = plan_privacy(PARTS, name="t", records=1000, steps=3, holdout=holdout)
    write_run(path, PARTS, plan, charged=3)
    summary = json.loads((path / "summary.json").read_text())
    summary |= {"status": "completed", "steps": 3, "epsilon": plan.epsilon, "versions": {}}
    summary |= {"epsilon_spent": plan.epsilon, "validations": 0} | known
    (path / "summary.json").write_text(json.dumps(summary))
    return statement_of(RunDirectory(path))


def times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


@pytest.mark.parametrize("holdout", ["public", "private"])
@pytest.mark.parametrize("validates", [True, False])
@pytest.mark.parametrize("looks", [0, 1, 4])
@pytest.mark.parametrize("tests", [0, 1, 3])
def test_both_splits_are_called_what_the_plan_calls_them(
    folder: Path,
    holdout: str,
    validates: bool,
    looks: int,
    tests: int,
) -> None:
    known = {"validates": validates, "validations": looks, "evaluations": tests}
    said = not_covered(statement(folder, holdout=holdout, **known))
    if looks == 0:
        assert said["holdout"] == "No validation metrics were recorded."
    else:
        assert ("declared public" in said["holdout"]) == (holdout == "public")
        assert ("`nonprivate/val/`" in said["holdout"]) == (holdout == "private")
        assert f"recorded {times(looks)}" in said["holdout"]
    assert ("test_split" in said) == (tests > 0)
    if tests:
        assert ("declared public" in said["test_split"]) == (holdout == "public")
        assert ("`nonprivate/test/`" in said["test_split"]) == (holdout == "private")
        assert f"looked at {times(tests)}" in said["test_split"]


def test_the_sentence_of_one_split_never_follows_from_the_other(folder: Path) -> None:
    of_validation: dict[Any, set[str]] = {}
    of_test: dict[Any, set[str]] = {}
    for holdout in ("public", "private"):
        made = statement(folder, holdout=holdout, validations=2, evaluations=2)
        for looks, tests in product((0, 1, 2), (1, 2)):
            counts = {"validates": looks > 0, "validation_looks": looks, "test_looks": tests}
            said = not_covered(dataclasses.replace(made, **counts))
            known = (holdout, looks) if looks else "none"
            of_validation.setdefault(known, set()).add(said["holdout"])
            of_test.setdefault((holdout, tests), set()).add(said["test_split"])
    for found in (of_validation, of_test):
        assert all(len(sentences) == 1 for sentences in found.values())
        assert len(set.union(*found.values())) == len(found)
