"""The list of planted bugs itself; `make mutants` plants them."""

from __future__ import annotations

import ast
from collections import Counter

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
