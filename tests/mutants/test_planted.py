"""The list of planted bugs itself; `make mutants` plants them."""

from __future__ import annotations

import ast
import importlib
from collections import Counter
from types import SimpleNamespace

import pytest
from mutants.planting import ROOT, copy_tree, read_bugs

BUGS = read_bugs()


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.id)
def test_a_bug_can_be_planted_at_one_place_and_leaves_valid_python(bug):
    text = (ROOT / bug.file).read_text()
    assert text.count(bug.old) == 1, (
        f"expected the old text once in {bug.file}: bring the bug along with the code"
    )
    assert ast.dump(ast.parse(text.replace(bug.old, bug.new))) != ast.dump(ast.parse(text))


def test_each_bug_has_an_id_of_its_own_and_names_tests_that_exist():
    assert max(Counter(bug.id for bug in BUGS).values()) == 1
    paths = {path for bug in BUGS for entry in bug.tests for path in entry.split()}
    assert [path for path in sorted(paths) if not (ROOT / path).exists()] == []


def test_a_copy_that_bugs_are_planted_in_has_every_file_of_the_package_and_the_tests(tmp_path):
    """Without one of them every test fails, and every bug seems to be caught."""
    copy = copy_tree(tmp_path)
    for folder in ("dppipe", "tests", "plugins", "pipelines"):
        files = {path.relative_to(ROOT) for path in (ROOT / folder).rglob("*") if path.is_file()}
        wanted = {path for path in files if "__pycache__" not in path.parts}
        assert {path for path in wanted if not (copy / path).exists()} == set()


def pytest_ended(code):
    return SimpleNamespace(returncode=code, stdout="FAILED tests/one.py::test_it - why", stderr="")


ENDED = {
    "fails": ([pytest_ended(1)], "caught by tests/one.py::test_it", 0),
    "passes": ([pytest_ended(0), pytest_ended(0)], "SURVIVED: sums", 1),
    "no end": ([None, None], "NO END IN TIME: tests/runs, tests/engine", 1),
    "no end, then passes": ([None, pytest_ended(0)], "NO END IN TIME: tests/runs", 1),
    "no end, then fails": ([None, pytest_ended(1)], "caught by tests/one.py::test_it", 0),
    "crashes": ([pytest_ended(-11), None], "caught by tests/one.py::test_it", 0),
}


@pytest.mark.parametrize("name", ENDED)
def test_tests_that_do_not_end_have_caught_nothing_and_fail_the_campaign(name, monkeypatch, capsys):
    ends, told, code = ENDED[name]
    left = iter(ends)
    monkeypatch.syspath_prepend(ROOT / "tests" / "mutants")  # it is a program, not a package
    run = importlib.import_module("mutants.run")
    tests = ("tests/runs", "tests/engine")
    bug = run.Bug("wrong-sum", "engine", "README.md", "old", "new", "sums", tests)
    monkeypatch.setattr(run, "read_bugs", lambda: [bug])
    monkeypatch.setattr(run, "copy_tree", lambda place: place)
    monkeypatch.setattr(run.Bug, "plant", lambda bug, root: None)
    monkeypatch.setattr(run, "run_tests", lambda root, paths, timeout: next(left))
    monkeypatch.setattr(run, "failing_without_bugs", lambda tests: [])
    monkeypatch.setattr("sys.argv", ["run.py"])
    assert run.main() == code
    printed = capsys.readouterr().out
    assert told in printed
    assert ("without an end in time" in printed) == ("NO END" in told)
    assert f"all          {1 - code} of 1 caught" in printed
