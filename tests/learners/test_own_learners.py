"""Learners that are the package's own: noise inside a solver, and runs that another row pays for."""

from __future__ import annotations

import importlib
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from learners.own_kinds import own_kinds
from learners.plugin_runs import SPEC, read_json, rows_of
from typer.testing import CliRunner

from dppipe.cli.app import app
from dppipe.errors import PrivacyRefusal
from dppipe.privacy.ledger_reading import read_ledger
from dppipe.randomness.gaussian import GaussianStream
from dppipe.runs.ledger import Ledger
from dppipe.runs.verify import verify_ledger


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder in which the test's learners are among the package's own."""
    monkeypatch.chdir(tmp_path)
    with own_kinds():
        yield tmp_path


def go(folder: Path, learner: str, *changes: str, code: int = 0) -> Path:
    (folder / "spec.yaml").write_text(SPEC.replace("{kind: nearest}", learner))
    words = ["run", "spec.yaml", "--run-dir", "run"]
    for change in changes:
        words += ["--set", change]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == code, done.output
    return folder / "run"


def slope_module() -> Any:
    return importlib.import_module("dppipe.learners.slope")


def test_the_row_is_durable_before_the_solver_starts(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    charge = Ledger.charge

    def slowly(ledger: Ledger, what: Any) -> None:
        time.sleep(0.3)  # a solver that didn't wait would see no row
        charge(ledger, what)

    monkeypatch.setattr(Ledger, "charge", slowly)
    run = go(here, "{kind: slope}")
    (seen,) = slope_module().SEEN
    assert seen == (run / "ledger.jsonl").read_bytes()
    (row,) = rows_of(run)
    assert row["what"] == "weights"
    assert verify_ledger(run).intact


def test_two_gaussians_in_a_row_are_charged_and_the_second_is_noise_on_the_solution(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[float] = []
    add = GaussianStream.add_

    def noted(stream: Any, values: Any, std: float, **options: Any) -> Any:
        drawn.append(std)
        return add(stream, values, std, **options)

    monkeypatch.setattr(GaussianStream, "add_", noted)
    run = go(here, "{kind: slope, tolerance: 1.0e-4}")
    (row,) = rows_of(run)
    parts = row["event"]["events"]
    assert row["event"]["type"] == "ComposedDpEvent"
    assert [part["noise_multiplier"] for part in parts][1] == 50.0
    inside, after = drawn
    assert inside == pytest.approx(parts[0]["noise_multiplier"])
    assert after == pytest.approx(50.0 * 1e-4)
    alone = go_alone(parts[0]["noise_multiplier"])
    assert row["epsilon"] > alone


def go_alone(noise_multiplier: float) -> float:
    """Return the epsilon of the first Gaussian alone."""
    from dp_accounting import GaussianDpEvent

    from dppipe.privacy.accountants.pld import Pld

    composed = Pld().compose([(GaussianDpEvent(noise_multiplier), 1)], relation="zero_out")
    return composed.epsilon(1e-5)


def test_a_row_that_cannot_be_written_starts_no_solver(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(ledger: Ledger, charge: Any) -> None:
        raise PrivacyRefusal("ledger: the disk is full.")

    monkeypatch.setattr(Ledger, "charge", fail)
    run = go(here, "{kind: slope}", code=3)
    assert slope_module().SEEN == []
    assert not (run / "checkpoints" / "final.ckpt").exists()


def test_a_solver_whose_event_charges_another_noise_is_refused_before_it_is_charged(
    here: Path,
) -> None:
    run = go(here, "{kind: slope, mechanism: laplace}", code=3)
    assert rows_of(run) == []
    assert slope_module().SEEN == []


def test_a_solver_without_a_budget_gets_no_noise(here: Path) -> None:
    go(here, "{kind: slope}", "budget=none")
    (noise,) = slope_module().NOISE
    assert noise.tolist() == [0.0]


def test_rows_of_covered_runs_count_nothing_and_name_the_row_that_pays(here: Path) -> None:
    run = go(here, "{kind: search}")
    paid = rows_of(run)
    assert [row["count"] for row in paid] == [1, 1]
    for number, row in enumerate(paid, start=1):
        folder = run / f"candidate{number}"
        covered = rows_of(folder)
        assert len(covered) == 2
        assert {one["count"] for one in covered} == {0}
        assert {one["covered_by"] for one in covered} == {row["hash"]}
        read = read_ledger(folder / "ledger.jsonl", plan=(folder / "plan.json").read_bytes())
        assert sum(charge.count for charge in read.charges) == 0
    assert read_json(run / "summary.json")["charged"] == 2
    assert verify_ledger(run).intact


def test_a_changed_paying_row_is_found_in_a_covered_ledger(here: Path) -> None:
    run = go(here, "{kind: search}")
    ledger = run / "candidate1" / "ledger.jsonl"
    plan = (run / "candidate1" / "plan.json").read_bytes()
    first = rows_of(run)[0]["hash"]
    ledger.write_text(ledger.read_text().replace(first, "0" * 64))
    with pytest.raises(PrivacyRefusal, match="its content is not what its hash names"):
        read_ledger(ledger, plan=plan)


def test_a_release_opens_one_covered_gate(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    search = importlib.import_module("dppipe.learners.search")

    def twice(self: Any, job: Any, gate: Any) -> Any:
        release, plan = gate.next(), self.plan(job)
        for name in ("one", "two"):
            with Ledger.create(job.directory / name, plan=plan.to_json()) as ledger:
                gate.covered(release, plan, ledger)
        return job.module

    monkeypatch.setattr(search.Search, "fit", twice)
    run = go(here, "{kind: search}", code=3)
    assert len(rows_of(run)) == 1


def test_records_are_read_inside_a_covered_gate_and_not_between(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    search = importlib.import_module("dppipe.learners.search")
    usual = search.Search.candidate

    def peeking(self: Any, job: Any, gate: Any, number: int) -> Any:
        found = usual(self, job, gate, number)
        next(job.records.units())
        return found

    monkeypatch.setattr(search.Search, "candidate", peeking)
    run = go(here, "{kind: search}", code=3)
    assert len(rows_of(run)) == 1
    assert not (run / "checkpoints" / "final.ckpt").exists()


def test_the_model_of_a_covered_search_is_finite(here: Path) -> None:
    run = go(here, "{kind: search}")
    weights = torch.load(run / "checkpoints" / "final.ckpt", weights_only=True)
    assert weights["mean"].isfinite().all()
    assert json.loads((run / "plan.json").read_text())["learner"] == "search"
