"""Run directories that were damaged, swapped or planted: a clear message, the right exit code, nothing run and nothing spent."""

from __future__ import annotations

import json
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

import dppipe as package
from dppipe.cli.app import app
from dppipe.errors import UsageError

pytestmark = pytest.mark.sampled(3)

COMMANDS = {
    "resume": ("interrupted", ["resume", "RUN", "--original-is-gone"]),
    "evaluate": ("finished", ["evaluate", "RUN"]),
    "verify": ("finished", ["ledger", "verify", "RUN"]),
    "compare": ("finished", ["compare", "RUN", "RUN"]),
}
DEEP = b"[" * 100_000


def run(words: list[str], path: Path) -> Any:
    result = CliRunner().invoke(app, [str(path) if word == "RUN" else word for word in words])
    assert "Traceback" not in result.output, result.output
    assert "internal error" not in result.output, result.output
    return result


def snapshot(path: Path) -> dict[str, bytes]:
    """Return what is promised to stay as it is; the curves aren't: opening them makes a file."""
    files = (file for file in path.rglob("*") if file.is_file() and "tfevents" not in file.name)
    return {str(file.relative_to(path)): file.read_bytes() for file in files}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", ["plan.json", "summary.json", "config.yaml", "origin.json"])
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"[]",
        b"null",
        b"\xff\xfe\x00",
        b'{"status": 3',
        DEEP,
        b'{"ledger": [], "data": 3, "validations": "x"}',
    ],
    ids=["empty", "no fields", "a list", "nothing", "bytes", "cut off", "deep", "wrong types"],
)
def test_a_damaged_file_is_named_or_does_not_matter(
    command: str, name: str, content: bytes, copy: Callable[[str], Path]
) -> None:
    which, words = COMMANDS[command]
    path = copy(which)
    (path / name).write_bytes(content)
    before = snapshot(path)
    result = run(words, path)
    assert result.exit_code in (0, 1, 2, 3, 4)
    if result.exit_code:
        assert str(path / name) in result.output or "ledger.jsonl" in result.output, result.output
        assert snapshot(path) == before


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    "name",
    ["plan.json", "config.yaml", "ledger.jsonl", "checkpoints/final.ckpt", "checkpoints/last.ckpt"],
)
@pytest.mark.parametrize("what", ["gone", "a folder", "a link", "a loop"])
def test_a_file_that_is_none_is_named_or_does_not_matter(
    command: str, name: str, what: str, copy: Callable[[str], Path]
) -> None:
    which, words = COMMANDS[command]
    path = copy(which)
    place = path / name
    if not place.exists():
        return
    place.rename(path.parent / "elsewhere")
    if what == "a folder":
        place.mkdir()
    elif what != "gone":
        place.symlink_to(path.parent / "elsewhere" if what == "a link" else place)
    result = run(words, path)
    assert result.exit_code in (0, 1, 2, 3, 4)
    if result.exit_code == 0:
        assert name.startswith("checkpoints/") or command in ("verify", "compare")
    if what == "a link" and command != "compare":
        assert result.exit_code == 2
        assert "symbolic link" in result.output


class Evil:
    """Runs a command when it is unpickled."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.trace),)


def evil_files(trace: Path, good: dict[str, Any]) -> dict[str, Callable[[Path], None]]:
    """Return ways to write a checkpoint that isn't one."""

    def legacy(path: Path) -> None:
        torch.save(good | {"x": Evil(trace)}, path, _use_new_zipfile_serialization=False)

    return {
        "code in a zip": lambda path: torch.save(good | {"x": Evil(trace)}, path),
        "code in the old format": legacy,
        "a bare pickle": lambda path: path.write_bytes(pickle.dumps(Evil(trace))),
        "only code": lambda path: torch.save(Evil(trace), path),
        "a whole module": lambda path: torch.save(torch.nn.Linear(2, 2), path),
        "empty": lambda path: path.write_bytes(b""),
        "garbage": lambda path: path.write_bytes(os.urandom(5000)),
        "a list": lambda path: torch.save([1, 2], path),
        "no fields": lambda path: torch.save({}, path),
        "text": lambda path: path.write_text("hello"),
    }


@pytest.mark.parametrize("way", evil_files(Path("x"), {}))
@pytest.mark.parametrize("command", ["resume", "evaluate"])
def test_a_checkpoint_that_is_none_is_refused_and_nothing_in_it_runs(
    way: str, command: str, copy: Callable[[str], Path], tmp_path: Path
) -> None:
    which, words = COMMANDS[command]
    path = copy(which)
    checkpoint = path / "checkpoints" / ("last.ckpt" if command == "resume" else "final.ckpt")
    good = torch.load(checkpoint, weights_only=True)
    evil_files(tmp_path / "trace", good)[way](checkpoint)
    before = snapshot(path)
    result = run(words, path)
    assert not (tmp_path / "trace").exists()
    assert result.exit_code == 2, result.output
    assert str(checkpoint) in result.output
    assert snapshot(path) == before
    if command == "evaluate":
        with pytest.raises(UsageError, match=r"checkpoints/final\.ckpt"):
            package.load_model(path)
        assert not (tmp_path / "trace").exists()


@pytest.mark.parametrize("cut", [0.1, 0.5, 0.9, 0.999])
def test_a_truncated_checkpoint_is_refused(cut: float, copy: Callable[[str], Path]) -> None:
    for command in ("resume", "evaluate"):
        which, words = COMMANDS[command]
        path = copy(which)
        checkpoint = path / "checkpoints" / ("last.ckpt" if command == "resume" else "final.ckpt")
        whole = checkpoint.read_bytes()
        checkpoint.write_bytes(whole[: int(cut * len(whole))])
        result = run(words, path)
        assert result.exit_code == 2
        assert str(checkpoint) in result.output


def test_a_checkpoint_of_another_model_is_refused(copy: Callable[[str], Path]) -> None:
    path = copy("interrupted")
    last = path / "checkpoints" / "last.ckpt"
    state = torch.load(last, weights_only=True)
    for change in (
        {"network.1.weight": torch.zeros(9, 9)},
        {"extra": torch.zeros(1)},
        {"network.1.weight": 3},
    ):
        torch.save(state | {"state_dict": state["state_dict"] | change}, last)
        result = run(COMMANDS["resume"][1], path)
        assert result.exit_code == 2, result.output
        assert str(last) in result.output


@pytest.mark.parametrize(
    "part", ["callbacks", "loops", "optimizer_states", "lr_schedulers", "global_step"]
)
@pytest.mark.parametrize("value", [None, 3, [], {}, [{}], {"DPCallback": {}}, {"DPCallback": 3}])
def test_a_checkpoint_with_a_part_of_another_kind_is_refused(
    part: str, value: Any, copy: Callable[[str], Path]
) -> None:
    path = copy("interrupted")
    last = path / "checkpoints" / "last.ckpt"
    torch.save(torch.load(last, weights_only=True) | {part: value}, last)
    before = (path / "ledger.jsonl").read_bytes()
    result = run(COMMANDS["resume"][1], path)
    assert result.exit_code in (0, 2, 3)
    if result.exit_code:
        assert str(last) in result.output, result.output
        assert (path / "ledger.jsonl").read_bytes() == before


def test_a_run_is_found_through_a_link_and_goes_on_where_it_really_is(
    originals: Path, here: Path
) -> None:
    shutil.copytree(originals / "interrupted", here / "real")
    assert run(["resume", "RUN", "--original-is-gone"], here / "real").exit_code == 0
    (here / "link").symlink_to(here / "real")
    assert run(["ledger", "verify", "RUN"], here / "link").exit_code == 0
    assert run(["evaluate", "RUN"], here / "link").exit_code == 0


def test_links_in_a_run_directory_are_refused(copy: Callable[[str], Path], here: Path) -> None:
    path = copy("interrupted")
    (path / "checkpoints").rename(here / "elsewhere")
    (path / "checkpoints").symlink_to(here / "elsewhere")
    result = run(COMMANDS["resume"][1], path)
    assert result.exit_code == 2
    assert "symbolic link" in result.output


@pytest.mark.parametrize(
    "what",
    ["a file", "a dangling link", "a loop", "a folder with files", "inside a file", "a null byte"],
)
def test_a_run_directory_that_cannot_be_made_is_named_and_nothing_is_written(
    what: str, here: Path
) -> None:
    place = here / "there"
    if what == "a file":
        place.write_text("mine")
    elif what == "a dangling link":
        place.symlink_to(here / "nowhere" / "at all")
    elif what == "a loop":
        place.symlink_to(place)
    elif what == "a folder with files":
        place.mkdir()
        (place / "mine").write_text("mine")
    elif what == "inside a file":
        (here / "file").write_text("mine")
        place = here / "file" / "there"
    words = str(place) if what != "a null byte" else "a\0b"
    before = sorted(here.rglob("*"))
    result = run(["run", str(here / "s.yaml"), "--run-dir", words], here)
    assert result.exit_code == 2, result.output
    assert words in result.output or "null byte" in result.output
    assert sorted(here.rglob("*")) == before


@pytest.mark.parametrize("word", ["resume", "evaluate", "ledger verify", "compare", "tensorboard"])
@pytest.mark.parametrize("place", ["nowhere", "s.yaml", ".", "a\0b", "/dev/null", "x" * 5000])
def test_what_is_no_run_directory_is_named(word: str, place: str, here: Path) -> None:
    result = run([*word.split(), place], here)
    assert result.exit_code == 2, result.output
    assert place[:50] in result.output or "null byte" in result.output


def test_a_run_killed_before_its_ledger_was_made_says_so(copy: Callable[[str], Path]) -> None:
    path = copy("interrupted")
    for file in ("ledger.jsonl", "origin.json", "summary.json"):
        (path / file).unlink()
    result = run(COMMANDS["resume"][1], path)
    assert result.exit_code == 2
    assert "without a ledger" in result.output


def test_a_plan_that_was_changed_before_its_first_charge_is_refused(
    copy: Callable[[str], Path],
) -> None:
    path = copy("interrupted")
    for file in ("origin.json", "summary.json", "checkpoints/last.ckpt"):
        (path / file).unlink()
    (path / "ledger.jsonl").write_bytes(b"")
    plan = json.loads((path / "plan.json").read_bytes())
    plan["noise"][0]["noise_multiplier"] = 0.5
    (path / "plan.json").write_text(json.dumps(plan))
    result = run(COMMANDS["resume"][1], path)
    assert result.exit_code == 3
    assert "expected the plan of" in result.output
