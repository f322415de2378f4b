"""What a shell completes, and what `dppipe show` prints."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from dppipe.cli.app import app
from dppipe.cli.completion import complete_accountants, complete_overrides, complete_samplers
from dppipe.cli.init import STARTER


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.yaml").write_text(STARTER)
    return tmp_path


def keys(incomplete: str, *files: str) -> list[str]:
    context: Any = SimpleNamespace(params={"spec_path": [Path(file) for file in files]})
    return complete_overrides(context, incomplete)


def test_keys_follow_the_kinds_of_the_spec_on_the_line(here: Path) -> None:
    assert keys("model.hid", "s.yaml") == ["model.hidden="]
    assert keys("model.hid", "missing.yaml") == []
    assert "model.kind=transformer" not in keys("model.kind=m", "s.yaml")
    assert "model.kind=mlp" in keys("model.kind=m", "s.yaml")
    assert keys("budget.relation=z", "s.yaml") == ["budget.relation=zero_out"]


def test_kinds_are_completed() -> None:
    assert complete_accountants("r") == ["rdp"]
    assert "poisson" in complete_samplers("p")


def test_show_prints_a_spec_that_reads_back_and_says_where_values_are_from(here: Path) -> None:
    (here / "over.yaml").write_text("clipping: {max_grad_norm: 0.5}\n")
    words = ["show", "s.yaml", "over.yaml", "--set", "seed=3"]
    (here / "shown.yaml").write_text(CliRunner().invoke(app, words).stdout)
    again = CliRunner().invoke(app, ["show", "shown.yaml", "--json"])
    assert again.stdout == CliRunner().invoke(app, [*words, "--json"]).stdout
    told = json.loads(CliRunner().invoke(app, [*words, "--sources", "--json"]).stdout)
    sources = {entry["path"]: entry["source"] for entry in told}
    assert sources["clipping.max_grad_norm"] == "over.yaml:1:27"
    assert sources["clipping.kind"].startswith("s.yaml:")
    assert sources["seed"] == "--set seed=3"
    assert sources["budget.relation"] == "default"
