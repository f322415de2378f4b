"""`dppipe plugins new`: from nothing to a plugin that is checked, tested and trained with, without an edit."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dppipe.cli.app import app
from dppipe.errors import UsageError
from dppipe.plugin_kit import write_plugin
from dppipe.plugin_kit.scaffold import STARTERS
from dppipe.spec.load import load_spec


def invoke(*words: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, list(words))
    assert result.exit_code == code, result.output
    return result.output


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_new_check_and_run_work_in_that_order_with_no_edit(empty: Path) -> None:
    said = invoke("plugins", "new", "clipper", "mine")
    assert said.splitlines() == [
        "wrote plugins/mine.py",
        "wrote tests/plugins/test_mine.py",
        "wrote pipelines/mine.yaml",
        "next: dppipe plugins check plugins/mine.py",
        "then: dppipe run pipelines/mine.yaml",
    ]
    checked = invoke("plugins", "check")
    assert "plugins/mine.py: clipping mine" in checked
    assert "FAIL" not in checked
    assert max(map(len, checked.splitlines())) <= 80
    assert "completed" in invoke(
        "run", "pipelines/mine.yaml", "--set", "accountant=rdp", "--run-dir", "run"
    )
    rows = (empty / "run" / "ledger.jsonl").read_text().splitlines()
    plan = json.loads((empty / "run" / "plan.json").read_text())
    assert len(rows) == plan["steps"]
    assert list(plan["plugins"]) == ["plugins/mine.py"]


@pytest.mark.parametrize("what", STARTERS)
def test_every_start_is_a_valid_spec(what: str, empty: Path) -> None:
    spec = load_spec(write_plugin(what, "my_own").pipeline)
    assert getattr(spec, STARTERS[what].block).kind == "my_own"


def test_the_written_tests_pass_and_with_them_all_checks(empty: Path) -> None:
    for what in STARTERS:
        write_plugin(what, f"my_{what}")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-W",
        "error",
        "-p",
        "no:cacheprovider",
        "tests",
    ]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "12 passed" in result.stdout, result.stdout + result.stderr


@pytest.mark.slow
@pytest.mark.parametrize("what", STARTERS)
def test_every_start_trains(what: str, empty: Path) -> None:
    write_plugin(what, "my_own")
    assert "completed" in invoke("run", "pipelines/my_own.yaml")


def test_another_folder_is_said_to_the_run(empty: Path) -> None:
    said = invoke("plugins", "new", "schedule", "mine", "--dir", "lab/kinds")
    assert (
        "wrote lab/kinds/mine.py\nwrote lab/tests/plugins/test_mine.py\nwrote lab/pipelines/mine.yaml"
        in said
    )
    assert "then: dppipe run lab/pipelines/mine.yaml --plugins lab/kinds" in said
    assert load_spec("lab/pipelines/mine.yaml", plugins="lab/kinds").noise.kind == "mine"
    assert "FAIL" not in invoke("plugins", "check", "--plugins", "lab/kinds")


@pytest.mark.parametrize(
    "name",
    ["Mine", "my-own", "1st", "", "a.b", "../up", "class", "true", "null", "class_path", "x" * 51],
)
def test_names_that_cannot_be_used_are_refused(name: str, empty: Path) -> None:
    with pytest.raises(UsageError, match="plugins new: expected a name"):
        write_plugin("clipper", name)
    assert list(empty.iterdir()) == []


def test_names_that_are_taken_are_refused(empty: Path) -> None:
    with pytest.raises(UsageError, match="a clipper of that name is there"):
        write_plugin("clipper", "flat")
    write_plugin("clipper", "mine")
    with pytest.raises(UsageError, match="a clipper of that name is there"):
        write_plugin("clipper", "mine")
    with pytest.raises(UsageError, match=r"plugins/mine\.py: expected a new file"):
        write_plugin("model", "mine")
    assert "flat" in invoke("plugins", "new", "model", "flat")


@pytest.mark.parametrize("taken", ["tests/plugins/test_mine.py", "pipelines/mine.yaml"])
def test_nothing_is_written_over_or_half(taken: str, empty: Path) -> None:
    (empty / taken).parent.mkdir(parents=True)
    (empty / taken).write_text("mine")
    with pytest.raises(UsageError, match="expected a new file, got one that is there"):
        write_plugin("clipper", "mine")
    assert (empty / taken).read_text() == "mine"
    assert not (empty / "plugins" / "mine.py").exists()


def test_a_word_that_is_no_family_is_explained(empty: Path) -> None:
    said = invoke("plugins", "new", "cliper", "mine", code=2)
    assert (
        "expected one of clipper, schedule, model, data, optimizer, learner, got 'cliper'. Did you mean 'clipper'?"
        in said
    )


@pytest.mark.parametrize(
    "name",
    ["clipper", "noise", "model", "data", "optimizer", "learner", "release", "tensor", "torch"],
)
@pytest.mark.parametrize("what", STARTERS)
def test_no_name_collides_with_what_the_file_uses(what: str, name: str, empty: Path) -> None:
    written = write_plugin(what, name)
    compile(written.plugin.read_text(), str(written.plugin), "exec")
    assert load_spec(written.pipeline).name == name


def test_check_ends_with_1_for_a_fault_and_2_for_a_missing_file(empty: Path) -> None:
    assert "got nothing there. Fix the path." in invoke(
        "plugins", "check", "plugins/none.py", code=2
    )
    assert "Say --plugins . for all of its files." in invoke("plugins", "check", ".", code=2)
    assert "Start one: dppipe plugins new" in invoke("plugins", "check", code=2)
    write_plugin("clipper", "mine")
    file = empty / "plugins" / "mine.py"
    file.write_text(file.read_text().replace("bounds / (norms", "-bounds / (norms"))
    said = invoke("plugins", "check", "plugins/mine.py", code=1)
    assert "  FAIL  norms of 0 get a factor from 0 to bound / norm: expected a factor" in said
    data = json.loads(invoke("plugins", "check", "plugins/mine.py", "--json", code=1))
    assert data["ok"] is False
    (kind,) = data["kinds"]
    assert (kind["file"], kind["block"], kind["kind"], len(kind["sha256"])) == (
        "plugins/mine.py",
        "clipping",
        "mine",
        64,
    )
    assert {"check", "ok", "remark"} == set(kind["outcomes"][0])


def test_what_a_plugin_prints_is_not_part_of_the_report(empty: Path) -> None:
    write_plugin("schedule", "mine")
    file = empty / "plugins" / "mine.py"
    file.write_text(
        file.read_text().replace("        return", "        print('hello')\n        return")
    )
    result = CliRunner().invoke(app, ["plugins", "check", "--json"])
    assert json.loads(result.stdout)["ok"] is True
    assert "hello" in result.stderr
