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
from dppipe.planning.planned_release import PlannedRelease
from dppipe.privacy.ledger_reading import read_ledger
from dppipe.privacy.ledger_rows import digest, encode_row
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


def as_now(stated: dict[str, Any]) -> dict[str, Any]:
    """Return what this version states instead of an earlier version's `privacy.json`.

    A list of releases stands in place of the two fields on statistics, and no file of them is
    named beside it.
    """
    files = dict(stated["files"])
    left = files.pop("statistics")
    now: dict[str, Any] = {}
    for name, value in stated.items():
        if name == "schedule":
            now["learner"] = "dp_sgd"
        if name == "scaling_noise_multiplier":
            now["releases"] = [] if value is None else [statistics_release(stated)]
            assert left == (value is not None)
        elif name != "scaling_statistics":
            now[name] = files if name == "files" else value
    return now


def statistics_release(stated: dict[str, Any]) -> dict[str, Any]:
    multiplier = stated["scaling_noise_multiplier"]
    return {
        "what": "statistics",
        "event": {"type": "GaussianDpEvent", "noise_multiplier": multiplier},
        "count": 1,
        "facts": {"statistics": stated["scaling_statistics"], "noise_multiplier": multiplier},
    }


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "killed"])
def test_the_statement_of_an_earlier_version_is_written_anew_byte_for_byte(
    copied: Any, kind: str
) -> None:
    run = RunDirectory(copied(kind))
    data = run.statement.with_suffix(".json")
    text = run.statement.read_bytes()
    stated = json.loads(data.read_bytes())
    for path in (run.statement, data):
        path.unlink()
    write_statement(run)
    assert run.statement.read_bytes() == text
    assert data.read_text() == json.dumps(as_now(stated), indent=2) + "\n"


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


STATISTICS = ["statistics", "statistics_interrupted"]


@pytest.mark.parametrize("kind", STATISTICS)
def test_statistics_of_an_earlier_version_are_the_first_release_of_its_plan(kind: str) -> None:
    run = RunDirectory(EARLIER / kind)
    assert json.loads(run.plan.read_bytes())["scaling_noise_multiplier"] == 8.0
    (release,) = read_plan(run).releases
    assert release == PlannedRelease.statistics("means and deviations", 8.0)
    rows = read_ledger(run.ledger, plan=run.plan.read_bytes())
    assert {charge.version for charge in rows.charges} == {1}
    assert json.loads(run.ledger.read_text().splitlines()[0])["step"] == 0
    (charge,) = rows.releases
    assert (charge.what, charge.event) == ("statistics", release.dp_event)


def test_a_resumed_run_neither_charges_nor_releases_its_statistics_again(copied: Any) -> None:
    run = copied("statistics_interrupted")
    released = (run / "statistics.json").read_bytes()
    command("resume", run, "--original-is-gone")
    assert (run / "statistics.json").read_bytes() == released
    found = read_ledger(run / "ledger.jsonl", plan=(run / "plan.json").read_bytes())
    assert [charge.step for charge in found.charges] == [0, 1, 2, 3, 4, 5, 6]
    assert [charge.version for charge in found.charges] == [1, 1, 1, 1, 2, 2, 2]
    assert len(found.releases) == 1


def test_an_earlier_run_that_lost_its_statistics_is_not_resumed(copied: Any) -> None:
    run = copied("statistics_interrupted")
    (run / "statistics.json").unlink()
    charged = (run / "ledger.jsonl").read_bytes()
    said = " ".join(command("resume", run, "--original-is-gone", code=3).split())
    assert "the release 'statistics' was charged, and its value was lost" in said
    assert (run / "ledger.jsonl").read_bytes() == charged


@pytest.mark.parametrize("multiplier", [1.0, 80.0])
def test_statistics_of_an_earlier_version_are_compared_with_its_plan(
    copied: Any, multiplier: float
) -> None:
    run = RunDirectory(copied("statistics"))
    plan = json.loads(run.plan.read_bytes()) | {"scaling_noise_multiplier": multiplier}
    charges = read_ledger(run.ledger, plan=run.plan.read_bytes()).charges
    run.plan.write_text(json.dumps(plan))
    lines = []
    head = digest(run.plan.read_bytes())
    for row, charge in enumerate(charges, start=1):
        lines.append(encode_row(charge, row=row, prev=head))
        head = digest(lines[-1])
    run.ledger.write_bytes(b"\n".join([*lines, b""]))
    assert f":1: event: expected GaussianDpEvent(noise_multiplier={multiplier})" in str(
        verify_ledger(run.path).faults
    )


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
