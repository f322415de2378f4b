"""TensorBoard's dashboard of a run: its layout, and what is written once beside the run's curves.

Colours belong to runs in TensorBoard. So lines that stand in one chart with the run's own are
sub-runs, in `curves/`: the budget, the forecast of what is spent and left, and metrics against
epsilon. All of it comes from the plan and from public metrics.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter
from torch.utils.tensorboard.summary import hparams, text

from dppipe.planning.step_plan import StepPlan

if TYPE_CHECKING:
    from dppipe.planning.plan import Plan

FOLDER = "curves"
"""Where sub-runs stand in a run directory."""
EPSILON_SCALE = 1000
"""Steps of the sub-run of metrics are epsilon times this, since steps are whole numbers."""
_MOST_POINTS = 256

# Tags are regular expressions in TensorBoard's layouts: anchored, so that no other tag slips in.
_PRIVACY = {
    "epsilon spent, its forecast and the budget": [
        "Multiline",
        ["privacy/epsilon$", "forecast/epsilon$", "budget/epsilon$"],
    ],
    "epsilon spent and left": ["Multiline", ["privacy/epsilon$", "left/epsilon$"]],
    "epsilon left": ["Multiline", ["privacy/epsilon_remaining$"]],
    "steps left": ["Multiline", ["privacy/steps_remaining$"]],
    "noise multiplier": ["Multiline", ["privacy/noise_multiplier$"]],
    "clipping bound": ["Multiline", ["privacy/max_grad_norm$"]],
    "sample rate": ["Multiline", ["privacy/sample_rate$"]],
    "cost of the same steps by each accountant": ["Multiline", ["cost/epsilon$"]],
    "most records recognised at 1 % false alarms": [
        "Multiline",
        ["attacker/tpr_at_fpr_1_percent$"],
    ],
}
_LEARNING_RATE = {"learning rate": ["Multiline", ["public/lr$", "public/lr/.*"]]}
_CLIPPING = {
    "gradient norms": ["Multiline", ["nonprivate/grad_norm_.*"]],
    "clipped fraction": ["Multiline", ["nonprivate/clipped_fraction$"]],
    "signal to noise": ["Multiline", ["nonprivate/signal_to_noise$"]],
}
_METRICS = ("accuracy", "loss")
"""Those with a chart of their own; the others share one."""


def layout(plan: Plan) -> dict[str, dict[str, list[Any]]]:
    """Return the charts of a run's dashboard, without those that would stay empty."""
    charts: dict[str, dict[str, list[Any]]] = {}
    if plan.private:
        charts["Privacy"] = _PRIVACY
    if plan.holdout == "public":
        charts["Utility"] = {**_metric_charts("^val/"), **_by_epsilon(plan), **_LEARNING_RATE}
    else:
        charts["Training"] = _LEARNING_RATE
        charts["Not private: the holdout"] = _metric_charts("nonprivate/val/")
    if plan.diagnostics != "off":
        charts["Not private: clipping"] = _CLIPPING
    return charts


def _metric_charts(prefix: str, *, against: str = "by step") -> dict[str, list[Any]]:
    charts: dict[str, list[Any]] = {}
    for name in _METRICS:
        charts[f"{name} {against}"] = ["Multiline", [f"{prefix}{name}$"]]
    others = f"{prefix}(?!({'|'.join(_METRICS)})$).*"
    charts[f"other metrics {against}"] = ["Multiline", [others]]
    return charts


def _by_epsilon(plan: Plan) -> dict[str, list[Any]]:
    if not plan.private or plan.schedule == "filter":
        return {}
    return _metric_charts("^by_epsilon/", against=f"by epsilon x {EPSILON_SCALE}")


def write_lines(directory: Path, plan: Plan) -> None:
    """Write the budget and the forecast of what is spent and left, unless they are there."""
    folder = directory / FOLDER
    if plan.budget_epsilon is None or folder.exists() or not plan.curve:
        return
    last = plan.curve[-1].step
    budget = [(0, plan.budget_epsilon), (last, plan.budget_epsilon)]
    write_line(folder / "budget", "budget/epsilon", budget)
    if not isinstance(plan, StepPlan) or plan.schedule == "filter":
        return
    points = [(point.step, point.epsilon) for point in plan.curve]
    every = -(-len(points) // _MOST_POINTS)
    points = [*points[:-1:every], points[-1]]
    left = [(step, plan.budget_epsilon - epsilon) for step, epsilon in points]
    write_line(folder / "forecast", "forecast/epsilon", points)
    write_line(folder / "left", "left/epsilon", left)


def shorten_forecast(directory: Path, plan: Plan, *, taken: int) -> None:
    """Begin the forecast where the run is now: it would hide what is spent, which it equals."""
    folder = directory / FOLDER / "forecast"
    if not folder.exists():
        return
    shutil.rmtree(folder)
    points = [(point.step, point.epsilon) for point in plan.curve if point.step > taken]
    if points:
        every = -(-len(points) // _MOST_POINTS)
        points = [(taken, plan.epsilon_after(taken)), *points[:-1:every], points[-1]]
        write_line(folder, "forecast/epsilon", points)


def write_line(directory: Path, tag: str, points: Sequence[tuple[int, float]]) -> None:
    """Write one line into a sub-run of its own."""
    writer = EventFileWriter(str(directory))
    try:
        for step, value in points:
            value_of = Summary.Value(tag=tag, simple_value=value)
            writer.add_event(Event(step=step, summary=Summary(value=[value_of])))
    finally:
        writer.close()


def table_of(plan: Plan, metrics: Mapping[str, float]) -> tuple[Summary, ...]:
    """Return the run's entry in TensorBoard's table of settings, with its epsilon and metrics."""
    facts: dict[str, Any] = {
        "learner": plan.learner,
        "accountant": plan.accountant or "none",
        "budget": plan.budget_epsilon or 0.0,
        "delta": plan.delta or 0.0,
        "relation": plan.relation or "none",
        "steps": plan.steps,
    }
    if isinstance(plan, StepPlan):
        facts["sampler"] = plan.sampler
        facts["expected_batch_size"] = plan.expected_batch_size
        facts["clipping"] = plan.clipping
        facts["max_grad_norm"] = plan.max_grad_norm
        if plan.noise:
            facts["noise_multiplier"] = plan.noise_multiplier(1)
    shown = {name: value for name, value in metrics.items() if name.startswith("val/")}
    if plan.private:
        shown["privacy/epsilon"] = plan.epsilon or 0.0
    return tuple(hparams(facts, shown))  # type: ignore[no-untyped-call]


def statement_text(markdown: str) -> Summary:
    """Return the statement for TensorBoard's tab of texts."""
    made: Summary = text("privacy statement", markdown)  # type: ignore[no-untyped-call]
    return made
