"""A model that diverges: the run still ends in order, says so in its metrics, and can't be gone on with."""

from __future__ import annotations

import json
import os
import signal

import pytest
from typer.testing import CliRunner

from dppipe.cli.app import app
from dppipe.runs.record import RunRecord

DIVERGING = [
    "optimizer.lr=1e29",
    "data={kind: synthetic, size: 200, features: 3, task: regression, holdout: public}",
]


def test_a_run_that_diverges_ends_in_order_with_metrics_that_are_null(run) -> None:
    done = run(*DIVERGING)
    assert done.exit_code == 0, done.output
    assert set(done.summary["metrics"].values()) == {None}
    assert "inf" in done.output or "nan" in done.output
    for words in (
        ["evaluate"],
        ["evaluate", "--json"],
        ["compare"],
        ["compare", "--json"],
        ["ledger", "verify"],
    ):
        again = CliRunner().invoke(app, [*words, str(done.path)])
        assert again.exit_code == 0, again.output
        if "--json" in words:
            json.loads(again.stdout, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


def test_a_run_that_has_diverged_is_not_gone_on_with(run, monkeypatch: pytest.MonkeyPatch) -> None:
    step = RunRecord.step

    def then_interrupt(record: RunRecord, **facts: object) -> None:
        step(record, **facts)
        if record.ledger.rows == 5:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(RunRecord, "step", then_interrupt)
    stopped = run(*DIVERGING)
    assert stopped.exit_code == 130, stopped.output
    resumed = CliRunner().invoke(app, ["resume", str(stopped.path)])
    assert resumed.exit_code == 3
    assert "diverged" in resumed.output


def test_a_machine_without_the_device_says_so(run) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has the device")
    done = run("train.accelerator=cuda")
    assert done.exit_code == 2, done.output
    assert "this machine" in done.output
    assert not done.path.exists()
