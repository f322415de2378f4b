"""Scoring the test split of a finished run: once, recorded in the summary and the statement."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sized
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from dppipe.data.base import split_records
from dppipe.errors import UsageError
from dppipe.learners.inputs.model_inputs import released_transforms, transformed_part
from dppipe.pipeline.load import load_network, spec_of
from dppipe.pipeline.scoring import score_records, scoring_loader
from dppipe.runs.directory import RunDirectory, write_json
from dppipe.runs.files import read_plan, read_summary
from dppipe.runs.outcome import plain_metrics
from dppipe.runs.page.documents import write_documents
from dppipe.runs.showing.confusion import unfold_cells
from dppipe.runs.statement.audit_findings import audit_of_run
from dppipe.runs.statement.writing import STATED

if TYPE_CHECKING:
    from torch.utils.data import DataLoader

    from dppipe.planning.plan import Plan
    from dppipe.spec.spec import Spec


def is_evaluated(run_dir: Path) -> bool:
    """Return whether the test split of a run was scored before."""
    return "test" in read_summary(RunDirectory.open(run_dir))


def evaluate_run(run_dir: Path, *, plugins: Path | None = None) -> dict[str, float]:
    """Return the test metrics of a run.

    The first call scores the test split; later ones read what it wrote.

    Example:
        >>> from pathlib import Path
        >>> from dppipe.pipeline.evaluate import evaluate_run
        >>> sorted(evaluate_run(Path("runs/first")))
        ['test/accuracy']
    """
    run = RunDirectory.open(run_dir)
    summary = read_summary(run)
    if "test" not in summary:
        scores = _look(run, plugins=plugins)
        summary = read_summary(run, *STATED) | {"test": plain_metrics(scores)}
        write_json(run.summary, summary)
        write_documents(run)
    try:
        return _metrics(summary["test"])
    except (AttributeError, TypeError, ValueError):
        raise UsageError(
            f"{run.summary}: expected metrics under `test`, got something else."
        ) from None


def _metrics(scores: Mapping[str, float | None]) -> dict[str, float]:
    """Return scores as they were before JSON, which holds null for what isn't finite."""
    found: dict[str, float] = {}
    for name, score in unfold_cells(scores).items():
        found[str(name)] = math.nan if score is None else float(score)
    return found


def _look(run: RunDirectory, *, plugins: Path | None) -> dict[str, float]:
    """Score the test split; summary and statement count this before a record is scored."""
    plan = read_plan(run)
    spec = spec_of(run, plugins=plugins)
    _refuse_audit_run(run)
    if spec.trained_model is None:
        raise UsageError(
            f"learner: expected one with a model to score, got {spec.learner.kind!r}, which makes "
            "no predictions."
        )
    model = load_network(run, spec)
    test = _test_records(run, spec, plan)
    summary = read_summary(run, *STATED)
    looks = summary.get("evaluations", 0) + 1
    if not plan.private or plan.holdout == "public":
        summary["test_records"] = len(cast("Sized", test.dataset))
    write_json(run.summary, summary | {"evaluations": looks})
    write_documents(run)
    prefix = "test/" if spec.data.holdout == "public" else "nonprivate/test/"
    return score_records(model, test, spec, prefix=prefix)


def _refuse_audit_run(run: RunDirectory) -> None:
    """Refuse to read test records for a model that only an audit was made with."""
    audit = audit_of_run(run)
    if audit is not None and audit.kind is not None:
        raise UsageError(
            f"{run.path}: expected a model that is for use, got that of an {audit.kind}."
        )


def _test_records(run: RunDirectory, spec: Spec, plan: Plan) -> DataLoader[Any]:
    splits = split_records(spec.data, seed=spec.seed, by=plan.splits_by)
    ready = transformed_part(splits.test, released_transforms(spec.data, run))
    test = scoring_loader(ready, data=spec.data)
    if test is None:
        raise UsageError(
            "data.split.test: expected a test split to score, got none. Give it a share."
        )
    return test
