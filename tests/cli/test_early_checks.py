"""Mistakes that are found before a run: files by their headers, alternatives, commands that can be copied."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

import dppipe
from dppipe.cli.app import app
from dppipe.spec.load import find_hints, load_spec
from dppipe.text_layout import shorten, shown_command

PACKAGE = Path(dppipe.__file__).parent
COMMANDS = (
    "run|resume|plan|validate|evaluate|tensorboard|ledger|budget|plugins|recipes|doctor|bench"
)
SPEC = """version: 1
name: c
data:
  kind: csv
  path: t.csv
  records: 20000
  numeric: [{column: age, mean: 50, std: 20}]
  target: {column: label, classes: [0, 1]}
model: {kind: logistic}
optimizer: {kind: sgd, lr: 0.1}
sampler: {kind: poisson, expected_batch_size: 256}
budget: {epsilon: 3.0, delta: 1.0e-5}
train: {epochs: 2}
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.yaml").write_text(SPEC)
    # The record isn't UTF-8: whoever decodes it finds out.
    (tmp_path / "t.csv").write_bytes(b"age,label\n\xff\xfe,secret\n")
    return tmp_path


def validate(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["validate", "s.yaml", *words])
    return done.exit_code, done.output


def test_validate_reads_the_header_and_no_record(here: Path) -> None:
    assert validate()[0] == 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("data.path=no.csv", "data.path: expected a file, got no.csv"),
        ("data.numeric=[{column: agee, mean: 0, std: 1}]", "Did you mean column 1?"),
        ("model.pretrained=no.pt", "model.pretrained: expected a file, got no.pt"),
    ],
)
def test_validate_finds_what_the_header_lacks(here: Path, change: str, said: str) -> None:
    code, output = validate("--set", change)
    assert code == 2
    assert said in output
    assert "secret" not in output


def test_set_of_one_alternative_replaces_the_other_and_says_so(here: Path) -> None:
    spec = load_spec("s.yaml", overrides=["train.steps=5"])
    assert (spec.train.steps, spec.train.epochs) == (5, None)
    (hint,) = find_hints("s.yaml", overrides=["train.steps=5"])
    assert "takes the place of train.epochs: 2" in hint
    code, output = validate("--set", "train.steps=5", "--set", "train.until=budget")
    assert code == 2
    assert "got both by --set" in output


def test_add_remove_keeps_rate_and_batch_size(here: Path) -> None:
    source = ["sampler.sample_rate=0.1", "budget.relation=add_remove"]
    assert not find_hints("s.yaml", overrides=source)


def test_a_list_with_wrong_items_is_not_called_too_short(here: Path) -> None:
    assert "at least 2 items" not in validate("--set", "data.target.classes=[[1],2]")[1]


def test_no_message_names_a_command_with_an_unquoted_value() -> None:
    for file in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.JoinedStr):
                for before, after in zip(node.values, node.values[1:], strict=False):
                    text = before.value if isinstance(before, ast.Constant) else ""
                    unquoted = re.search(rf"dppipe ({COMMANDS})( [a-z]+)? $", str(text))
                    assert not (unquoted and isinstance(after, ast.FormattedValue)), file


def test_commands_and_cuts() -> None:
    assert shown_command("run", "my spec.yaml") == "dppipe run 'my spec.yaml'"
    assert shorten("one two three four", 12) == "one two ..."


@pytest.mark.parametrize("words", [["-h"], ["run", "-h"], ["ledger", "verify", "-h"]])
def test_h_is_help(words: list[str]) -> None:
    assert CliRunner().invoke(app, words).exit_code == 0


def test_every_copied_recipe_is_valid_where_it_was_put(here: Path) -> None:
    for name in ("quickstart", "exponential", "soft_clip"):
        assert CliRunner().invoke(app, ["recipes", "copy", name]).exit_code == 0
        assert CliRunner().invoke(app, ["validate", f"{name}.yaml"]).exit_code == 0
    (here / "quickstart.yaml").write_text("mine")
    assert CliRunner().invoke(app, ["recipes", "copy", "quickstart"]).exit_code == 2
    assert (here / "quickstart.yaml").read_text() == "mine"
