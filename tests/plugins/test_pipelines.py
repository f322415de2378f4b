"""The pipelines of the example plugins train, on their budget."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dppipe.cli.app import app

ROOT = Path(__file__).parents[2]
PIPELINES = sorted((ROOT / "pipelines" / "plugins").glob("*.yaml"))


def test_every_example_has_its_pipeline_and_its_test() -> None:
    examples = {file.stem for file in (ROOT / "plugins").glob("*.py")}
    assert examples == {pipeline.stem for pipeline in PIPELINES}
    assert examples == {
        test.stem.removeprefix("test_") for test in Path(__file__).parent.glob("test_*.py")
    } - {"pipelines"}


@pytest.mark.slow
@pytest.mark.parametrize("pipeline", PIPELINES, ids=lambda path: path.stem)
def test_a_pipeline_trains_with_its_plugin(
    pipeline: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    result = CliRunner().invoke(
        app, ["run", str(pipeline), "--run-dir", str(tmp_path / "run"), "--json"]
    )
    assert result.exit_code == 0, result.output
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    plan = json.loads((tmp_path / "run" / "plan.json").read_text())
    assert summary["epsilon"] <= 3.0
    assert summary["metrics"]["val/accuracy"] > 0.85
    assert list(plan["plugins"]) == [f"plugins/{pipeline.stem}.py"]
