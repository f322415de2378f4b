"""Run directories that an earlier version wrote are verified, resumed and evaluated by this one.

`earlier_runs.py` says how they were made.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from earlier_runs import FINISHED, INTERRUPTED, fit
from typer.testing import CliRunner

import dppipe
from dppipe.cli.app import app
from dppipe.runs.directory import RunDirectory
from dppipe.runs.files import read_plan
from dppipe.runs.statement.writing import write_statement
from dppipe.runs.verify import verify_ledger

EARLIER = Path(__file__).parent / "earlier"
KINDS = sorted(path.name for path in EARLIER.iterdir())
RESUMABLE = [*INTERRUPTED, "killed"]

pytestmark = pytest.mark.filterwarnings(
    "ignore:You.re resuming from a checkpoint that ended before the epoch"
)


@pytest.fixture
def copied(tmp_path: Path) -> Any:
    """Copy a run directory of the earlier version to where it may be changed."""

    def copy(kind: str) -> Path:
        return Path(shutil.copytree(EARLIER / kind, tmp_path / kind))

    return copy


def command(*words: object, code: int = 0) -> str:
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == code, done.output
    return done.output


def summary_of(run: Path) -> dict[str, Any]:
    return json.loads((run / "summary.json").read_bytes())


@pytest.mark.parametrize("kind", KINDS)
def test_the_ledger_of_an_earlier_version_is_verified(kind: str) -> None:
    found = verify_ledger(EARLIER / kind)
    assert found.faults == ()
    if kind == "not_private":
        assert found.rows == 0
        return
    plan = read_plan(RunDirectory(EARLIER / kind))
    assert found.certified
    assert 0 < found.epsilon <= found.claimed + 1e-4
    assert found.claimed <= plan.epsilon


def test_every_kind_of_earlier_run_is_there() -> None:
    assert sorted([*FINISHED, *RESUMABLE, "python_interrupted"]) == KINDS


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "killed"])
def test_the_statement_of_an_earlier_version_is_written_anew_byte_for_byte(
    copied: Any, kind: str
) -> None:
    run = RunDirectory(copied(kind))
    written = (run.statement, run.statement.with_suffix(".json"))
    before = [path.read_bytes() for path in written]
    for path in written:
        path.unlink()
    write_statement(run)
    assert [path.read_bytes() for path in written] == before


@pytest.mark.parametrize("kind", RESUMABLE)
def test_an_interrupted_run_of_an_earlier_version_is_resumed(copied: Any, kind: str) -> None:
    run = copied(kind)
    charged = (run / "ledger.jsonl").read_bytes()
    assert "--original-is-gone" in command("resume", run, code=3)
    assert (run / "ledger.jsonl").read_bytes() == charged
    command("resume", run, "--original-is-gone")
    assert (run / "ledger.jsonl").read_bytes().startswith(charged)
    summary = summary_of(run)
    assert (summary["status"], summary["starts"]) == ("completed", 2)
    assert summary["epsilon"] == read_plan(RunDirectory(run)).epsilon
    assert verify_ledger(run).intact


def test_a_torn_row_of_an_earlier_version_stays_charged(copied: Any) -> None:
    run = copied("killed")
    ledger = run / "ledger.jsonl"
    ledger.write_bytes(ledger.read_bytes()[:-200])
    assert verify_ledger(run).torn
    command("resume", run, "--original-is-gone")
    assert "torn" in json.loads(ledger.read_text().splitlines()[2])
    assert summary_of(run)["charged"] == 6
    assert verify_ledger(run).intact


def test_an_interrupted_python_run_of_an_earlier_version_is_resumed(copied: Any) -> None:
    run = copied("python_interrupted")
    private = fit(resume=dppipe.RunDirectory.open(run, original_is_gone=True))
    assert private.outcome is not None
    assert private.outcome.status == "completed"
    assert verify_ledger(run).intact


@pytest.mark.parametrize("kind", FINISHED)
def test_a_finished_run_of_an_earlier_version_is_evaluated_to_the_same_scores(
    copied: Any, kind: str
) -> None:
    run = copied(kind)
    summary = summary_of(run)
    scores = summary.pop("test")
    (run / "summary.json").write_text(json.dumps(summary))
    command("evaluate", run)
    again = summary_of(run)
    assert again["test"] == pytest.approx(scores, abs=1e-6)
    assert again["evaluations"] == summary["evaluations"] + 1


@pytest.mark.parametrize("kind", FINISHED)
def test_the_model_of_a_finished_run_of_an_earlier_version_is_loaded(kind: str) -> None:
    model = dppipe.load_model(EARLIER / kind)
    assert torch.isfinite(model(torch.zeros(2, 3))).all()
