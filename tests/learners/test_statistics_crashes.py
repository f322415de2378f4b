"""Runs that are killed around the release of private statistics: one charge pays for one release, and it stays paid."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning  # noqa: F401 (a forked process finds it loaded)
from small_runs import SPEC
from typer.testing import CliRunner

from dppipe.cli.app import app
from dppipe.data.reading.scaling import Constants
from dppipe.learners.inputs import scaling
from dppipe.learners.sgd.step import PrivateStep
from dppipe.randomness.gaussian import GaussianStream
from dppipe.runs.ledger import Ledger
from dppipe.runs.verify import verify_ledger

STEPS = 3
STATISTICS = "data.normalize={kind: private, noise_multiplier: 10, lower: -4, upper: 4}"


def die(*args: Any, **kwargs: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def write_half_and_die(fd: int, data: bytes) -> int:
    write(fd, data[: len(data) // 2])
    die()
    return 0


write = os.write
write_json = scaling.write_json


def write_json_and_die(path: Path, data: Any) -> None:
    write_json(path, data)
    die()


DEATHS: dict[str, tuple[Any, str, Callable[..., Any]]] = {
    "before the charge": (Ledger, "charge", die),
    "in the charge": (os, "write", write_half_and_die),
    "after the charge": (GaussianStream, "add_", die),
    "after the noise": (scaling, "write_json", die),
    "after the release": (scaling, "write_json", write_json_and_die),
    "at the first step": (PrivateStep, "__call__", die),
}
CHARGED = ["in the charge", "after the charge", "after the noise"]
RELEASED = ["after the release", "at the first step"]


def killed_run(folder: Path, instant: str) -> Path:
    """Run the small spec in a process of its own, which is killed at this instant."""
    (folder / "spec.yaml").write_text(SPEC)
    run = folder / "run"
    words = ["run", str(folder / "spec.yaml"), "--run-dir", str(run)]
    words += ["--set", STATISTICS, "--set", f"train.steps={STEPS}"]
    child = os.fork()
    if child == 0:
        try:
            setattr(*DEATHS[instant])
            CliRunner().invoke(app, words)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status)
    assert os.WTERMSIG(status) == signal.SIGKILL
    return run


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[Any]]:
    """Note each release, by its standard deviation, and what the records are scaled by."""
    seen: dict[str, list[Any]] = {"noise": [], "scaling": []}
    add, scale = GaussianStream.add_, Constants.transformed

    def noted_add(stream: GaussianStream, values: Any, std: float, **options: Any) -> Any:
        seen["noise"].append(std)
        return add(stream, values, std, **options)

    def noted_scale(constants: Constants, inputs: Any) -> Any:
        if constants not in seen["scaling"]:
            seen["scaling"].append(constants)
        return scale(constants, inputs)

    monkeypatch.setattr(GaussianStream, "add_", noted_add)
    monkeypatch.setattr(Constants, "transformed", noted_scale)
    return seen


def resume(run: Path) -> Any:
    return CliRunner().invoke(app, ["resume", str(run)])


def charged_in(run: Path) -> list[Any]:
    """Return what each row charges: the number of a step, or what else was released."""
    rows = [json.loads(line) for line in (run / "ledger.jsonl").read_text().splitlines()]
    return [row.get("step", row.get("what")) for row in rows]


@pytest.mark.parametrize("instant", CHARGED)
def test_statistics_that_were_charged_and_not_kept_are_never_released_again(
    tmp_path: Path, watched: dict[str, list[Any]], instant: str
) -> None:
    run = killed_run(tmp_path, instant)
    before = (run / "ledger.jsonl").read_bytes()
    assert before
    assert not (run / "statistics.json").exists()
    for _ in range(2):
        done = resume(run)
        assert done.exit_code == 3, done.output
        assert "the release 'statistics' was charged, and its value was lost" in " ".join(
            done.output.split()
        )
    assert (run / "ledger.jsonl").read_bytes() == before
    assert not (run / "statistics.json").exists()
    assert watched == {"noise": [], "scaling": []}
    found = verify_ledger(run)
    assert found.charged == 1
    assert found.epsilon is not None
    assert found.epsilon > 0


@pytest.mark.parametrize("instant", RELEASED)
def test_a_run_killed_after_its_statistics_goes_on_with_the_same_scaling_and_pays_once(
    tmp_path: Path, watched: dict[str, list[Any]], instant: str
) -> None:
    run = killed_run(tmp_path, instant)
    rows = (run / "ledger.jsonl").read_bytes()
    released = (run / "statistics.json").read_bytes()
    assert charged_in(run) == ["statistics"]
    done = resume(run)
    assert done.exit_code == 0, done.output
    assert (run / "ledger.jsonl").read_bytes().startswith(rows)
    assert charged_in(run) == ["statistics", *range(1, STEPS + 1)]
    assert (run / "statistics.json").read_bytes() == released
    assert len(watched["noise"]) == STEPS
    assert [each.model_dump(mode="json") for each in watched["scaling"]] == [json.loads(released)]
    assert verify_ledger(run).intact


def test_a_run_killed_before_it_charged_its_statistics_charges_and_releases_them_once(
    tmp_path: Path, watched: dict[str, list[Any]]
) -> None:
    run = killed_run(tmp_path, "before the charge")
    assert charged_in(run) == []
    done = resume(run)
    assert done.exit_code == 0, done.output
    assert charged_in(run) == ["statistics", *range(1, STEPS + 1)]
    assert len(watched["noise"]) == 1 + STEPS
    assert len(watched["scaling"]) == 1
    assert verify_ledger(run).intact
