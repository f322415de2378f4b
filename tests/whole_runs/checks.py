"""What holds of every finished run, whatever its features and however often it died: its files tell one story."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from whole_runs.files import Files

LONGEST = 16
"""Tensors of up to so many bytes are recognised by nobody: too many networks have equal ones."""


def check_finished(run: Files, *, starts: int, killed: bool = False) -> None:
    """Check the files of a run that has ended by its plan.

    Args:
        run: Its files.
        starts: How many lives it had.
        killed: Whether a life ended so that updates and points of curves were lost.
    """
    check_rows(run)
    check_summary(run, starts=starts, killed=killed)
    check_statement(run)
    check_checkpoint(run)
    check_curves(run, killed=killed)
    check_registered(run)


def check_rows(run: Files) -> None:
    """Compare the ledger with the plan, row by row, and the plan with the spec."""
    plan = run.plan
    if not plan["private"]:
        assert run.rows == []
        return
    assert [row["row"] for row in run.rows] == list(range(1, len(run.rows) + 1))
    assert len(run.released) == len(plan["releases"])
    for row, planned in zip(run.released, plan["releases"], strict=True):
        assert (row["what"], row["count"]) == (planned["what"], planned["count"])
        assert row["event"] == planned["event"]
        assert row["epsilon"] == run.epsilon_after(0)
        assert planned["facts"].items() <= row["facts"].items()
    noise = run.planned("noise", "noise_multiplier", default=None)
    rates = run.planned("batches", "sample_rate", default=plan["sample_rate"])
    factors = run.planned("bounds", "factor", default=1.0)
    for row in run.steps:
        place = row["step"] - 1
        assert row["sample_rate"] == rates[place]
        if plan["schedule"] == "committed":
            assert row["noise_multiplier"] == noise[place]
        numbers = list(_numbers(row["event"]))
        assert row["noise_multiplier"] in numbers
        if plan["sampler"] in ("poisson", "user"):
            assert row["sample_rate"] in numbers
        pays = not plan["epochwise"] or place % plan["steps_per_epoch"] == 0
        assert row["count"] == (1 if pays else 0)
        assert row["epsilon"] == run.epsilon_after(row["step"])
    unscheduled = [row["max_grad_norm"] / factors[row["step"] - 1] for row in run.steps]
    first = plan["max_grad_norm"] if plan["mechanism"] == "gaussian" else unscheduled[0]
    assert unscheduled[0] == pytest.approx(first)
    moves = plan["clipping"] == "adaptive"
    assert moves or unscheduled == pytest.approx([first] * len(unscheduled))
    assert not moves or len(set(unscheduled)) > 1, "the bound never followed what was released"
    for row in run.rows:
        assert (row["relation"], row["unit"]) == (plan["relation"], plan["unit"])
    for row in run.steps:
        assert (row["sampler"], row["mechanism"]) == (plan["sampler"], plan["mechanism"])
    check_plan(run)


def check_plan(run: Files) -> None:
    """Compare the plan with the spec: each number that a user has stated."""
    plan, config = run.plan, run.config
    budget, data, sampler = config["budget"], config["data"], config["sampler"]
    stated = {
        "name": config["name"],
        "budget_epsilon": budget["epsilon"],
        "delta": budget["delta"],
        "relation": budget["relation"],
        "scope": budget.get("scope"),
        "accountant": config["accountant"]["kind"],
        "holdout": data["holdout"],
        "diagnostics": config["diagnostics"],
        "reproducible": config["reproducible"],
        "sampler": sampler["kind"],
        "clipping": config["clipping"]["kind"],
        "mechanism": config["noise"].get("mechanism", "gaussian"),
        "secure": config["noise"].get("secure", False),
        "failure_delta": config["clipping"].get("delta", 0.0),
        "unit": "user" if sampler["kind"] == "user" else "example",
        "split": "hash" if budget["relation"] == "add_remove" else "position",
    }
    assert {name: plan[name] for name in stated} == stated
    assert plan["epsilon"] == run.epsilon_after(plan["steps"]) <= plan["budget_epsilon"]
    if config["noise"]["noise_multiplier"] is not None:
        assert plan["noise"][0]["noise_multiplier"] == pytest.approx(
            config["noise"]["noise_multiplier"], rel=1e-3
        )


def check_summary(run: Files, *, starts: int, killed: bool) -> None:
    """Compare the summary with ledger, plan and origin."""
    plan, summary = run.plan, run.summary
    refused = bool(run.steps) and run.steps[-1]["step"] < plan["steps"]
    spent = plan["ends_at"] == "budget" or refused
    assert summary["status"] == ("budget_exhausted" if spent else "completed")
    assert summary["starts"] == run.origin["starts"] == starts
    assert summary["charged"] == sum(row["count"] for row in run.rows)
    same = ("epsilon", "delta", "relation", "unit", "accountant", "certified")
    assert {name: summary[name] for name in same} == {name: plan[name] for name in same}
    if plan["private"]:
        assert summary["epsilon_spent"] == run.rows[-1]["epsilon"]
        assert summary["ledger_head"] == head(run.path)
        if not killed:
            assert summary["steps"] == len(run.steps)
        assert summary["steps"] <= len(run.steps)
    else:
        assert summary["steps"] == plan["steps"]
        assert summary["epsilon_spent"] is None
    prefix = "val/" if plan["holdout"] == "public" else "nonprivate/val/"
    assert summary["metrics"] or killed  # a life that takes no step validates nothing
    assert all(name.startswith(prefix) for name in summary["metrics"])
    for name, value in summary["metrics"].items():
        assert run.curves[name][-1][1] == pytest.approx(value), "the last validation's metric"
        if not killed:
            assert summary["validations"] == len(run.curves[name])


def check_statement(run: Files) -> None:
    """Compare the statement's facts with the files that it is made of."""
    plan, summary, stated = run.plan, run.summary, run.statement
    as_planned = (
        "name", "private", "reproducible", "unit", "max_records_per_user", "relation", "records", "split",
        "budget_epsilon", "delta", "accountant", "certified", "learner", "schedule", "sampler", "mechanism", "secure",
        "clipping", "averages", "failure_delta", "own_module", "scope",
    )  # fmt: skip
    assert {name: stated[name] for name in as_planned} == {name: plan[name] for name in as_planned}
    as_ended = ("status", "stopped_early", "begun", "ended", "starts", "versions", "ledger_head")
    assert {name: stated[name] for name in as_ended} == {name: summary[name] for name in as_ended}
    assert stated["updates"] == summary["steps"]
    assert stated["validation_looks"] == summary["validations"]
    assert stated["test_looks"] == summary.get("evaluations", 0)
    assert stated["holdout"] == stated["test_holdout"] == plan["holdout"]
    assert stated["diagnostics"] == (plan["diagnostics"] == "nonprivate")
    assert len(stated["releases"]) == len(plan["releases"])
    assert stated["noisy_counts"] == (plan["statistics_std"] is not None)
    assert stated["config_hash"] == _digest((run.path / "config.yaml").read_bytes())
    assert stated["files"] == {"final_weights": True, "checkpoint": True, "curves": True}
    for name in ("epsilon", "epsilon_spent"):
        exact, shown = summary[name], stated[name]
        assert shown is exact is None or exact <= shown <= exact * 1.002
    if not plan["private"]:
        return
    executed = stated["executed"]
    assert executed["steps"] == len(run.steps)
    for name in ("noise_multiplier", "sample_rate", "max_grad_norm"):
        found = [row[name] for row in run.steps]
        if name in executed:
            assert list(executed[name]) == [min(found), max(found)]


def check_checkpoint(run: Files) -> None:
    """Compare the last checkpoint with the summary, the ledger and the final model."""
    state, summary = run.state, run.summary
    assert run.checkpoint["global_step"] == state["steps"] == summary["steps"]
    assert state["validations"] == summary["validations"]
    if run.plan["private"]:
        assert (state["ledger_head"], state["ledger_rows"]) == (head(run.path), len(run.rows))
    last = {
        name.removeprefix("network."): value for name, value in run.checkpoint["state_dict"].items()
    }
    optimizer = run.config["optimizer"]
    if optimizer.get("averaging") is not None:
        differs = any(not torch.equal(last[name], run.weights[name]) for name in last)
        assert differs or summary["steps"] < run.plan["steps"]  # a mean may begin late
        last = dict(state["average"])
    assert last.keys() == run.weights.keys()
    for name, value in last.items():
        assert torch.equal(value, run.weights[name]), name
    if run.plan["schedule"] == "filter":
        assert len(state["history"]) == summary["steps"]  # lost updates are in neither


def check_curves(run: Files, *, killed: bool) -> None:
    """Compare each point of the curves with the row of its step."""
    plan, curves = run.plan, run.curves
    privacy = {tag for tag in curves if tag.startswith("privacy/")}
    if not plan["private"]:
        assert not privacy
        return
    rows = {row["step"]: row for row in run.steps}
    for tag in ("sample_rate", "noise_multiplier", "max_grad_norm", "epsilon"):
        points = {step: value for step, value in curves[f"privacy/{tag}"] if step}
        expected = {step: row[tag] for step, row in rows.items()}
        if killed:
            expected = {step: expected[step] for step in points}
        assert points == pytest.approx(expected), tag
    for step, value in curves["privacy/epsilon_remaining"]:
        spent = run.epsilon_after(step)
        assert value == pytest.approx(plan["budget_epsilon"] - spent, rel=1e-5, abs=1e-5)
    for step, value in curves["privacy/steps_remaining"]:
        assert value == plan["steps"] - step
    statistics = [value for step, value in curves["privacy/epsilon"] if step == 0]
    assert len(statistics) == len(plan["releases"])
    shown = {tag for tag in curves if tag.startswith("nonprivate/") and "val/" not in tag}
    assert bool(shown) == (plan["diagnostics"] == "nonprivate")
    rated = [step for step, _ in curves["public/lr"]]
    noised = [step for step, _ in curves["privacy/noise_multiplier"]]
    assert len(set(rated)) == len(rated)
    assert set(rated) <= set(noised) <= set(rows)
    assert killed or rated == sorted(rows)


def check_registered(run: Files) -> None:
    """A run's weights are known as its own, with what they cost."""
    import os

    place = Path(os.environ["DPPIPE_STORE"]).parent / "finished_runs.jsonl"
    if not run.plan["private"]:
        return
    mine = [
        line
        for line in map(json.loads, place.read_text().splitlines())
        if line["runs"][0]["ledger_head"] == head(run.path)
    ]
    assert mine, "the run isn't in the file of finished runs"
    known = set(mine[-1]["hashes"])
    last = run.checkpoint["state_dict"].values()
    for tensor in (*run.weights.values(), *last):
        content = tensor.numpy().tobytes()
        assert len(content) <= LONGEST or _digest(content) in known


def head(path: Path) -> str:
    """Return the hash of a ledger's last line."""
    return _digest((path / "ledger.jsonl").read_bytes().splitlines()[-1])


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _numbers(node: Any) -> Any:
    """Yield all numbers in an event."""
    if isinstance(node, Mapping):
        for value in node.values():
            yield from _numbers(value)
    elif isinstance(node, float | int) and math.isfinite(node):
        yield node
