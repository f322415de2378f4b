"""The progress bar: what it says before, during and between steps, at 80 columns."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any, cast

import pytest
from rich.console import Console

from dppipe.lightning.progress import ProgressBar, duration
from dppipe.planning.privacy_plan import make_step_plan
from dppipe.planning.step_plan import StepPlan
from dppipe.spec import load_spec

TRAINER: Any = SimpleNamespace(is_global_zero=True)
MODULE: Any = None


@pytest.fixture(scope="module")
def plan() -> StepPlan:
    spec = load_spec("pipelines/quickstart.yaml", overrides=["train={steps: 40}"])
    return make_step_plan(spec)


def _run(plan: StepPlan, console: Console) -> str:
    bar = ProgressBar(plan, console=console)
    bar.setup(TRAINER, MODULE, "fit")
    bar.on_train_start(TRAINER, MODULE)
    for step in range(plan.steps):
        bar.on_train_batch_end(TRAINER, MODULE, None, None, step)
        if step == 20:
            bar.on_validation_start(TRAINER, MODULE)
            if bar._bar is not None:
                bar._bar.refresh()
            bar.on_validation_end(TRAINER, MODULE)
    if bar._bar is not None:
        bar._bar.refresh()
    bar.teardown(TRAINER, MODULE, "fit")
    return cast(io.StringIO, console.file).getvalue()


def test_a_log_has_plain_lines_with_epsilon_speed_and_time(plan: StepPlan) -> None:
    shown = _run(plan, Console(file=io.StringIO(), width=80)).splitlines()
    assert shown[0].startswith("setting up")
    assert shown[1].startswith("step 1/40  epsilon ")
    assert shown[-1].startswith("step 40/40  epsilon 3 spent, 0.000 left")
    assert shown[-1].endswith("/s  0 s left")
    assert all(len(line) <= 80 and "\x1b" not in line for line in shown)


def test_a_terminal_shows_set_up_steps_and_validation_in_80_columns(plan: StepPlan) -> None:
    console = Console(file=io.StringIO(), width=80, force_terminal=True, no_color=True)
    shown = _run(plan, console)
    for text in ("setting up", "validating", "step 40/40", "epsilon 3 spent", "/s"):
        assert text in shown
    assert "\n\n" not in shown  # no line was broken in two


def test_each_step_shows_the_plans_epsilon(plan: StepPlan) -> None:
    bar = ProgressBar(plan, console=Console(file=io.StringIO()), taken=17)
    left = 3.0 - plan.epsilon_after(17)
    assert bar._spent().endswith(f"{left:.3f} left")


@pytest.mark.parametrize(("seconds", "text"), [(48.2, "48 s"), (185, "3:05 min"), (7800, "2:10 h")])
def test_times_are_written_as_people_do(seconds: float, text: str) -> None:
    assert duration(seconds) == text
