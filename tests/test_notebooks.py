"""The notebooks of the documentation: executed as they stand, small, and still true."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import dppipe

ROOT = Path(dppipe.__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "docs/notebooks").glob("*.ipynb"))
EXECUTE = """
import sys
import nbformat
from nbclient import NotebookClient

notebook = nbformat.read(sys.argv[1], as_version=4)
NotebookClient(notebook, timeout=600, resources={"metadata": {"path": "."}}).execute()
nbformat.write(notebook, "executed.ipynb")
"""


def code_cells(path: Path) -> list[dict[str, Any]]:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def test_there_is_a_notebook_of_a_table_and_one_of_images() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["image", "table"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_was_executed_from_top_to_bottom_and_is_small(path: Path) -> None:
    cells = code_cells(path)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    for cell in cells:
        ast.parse("".join(cell["source"]))
        kinds = {output["output_type"] for output in cell["outputs"]}
        assert kinds <= {"stream", "display_data", "execute_result"}
        assert not any(output.get("name") == "stderr" for output in cell["outputs"])
    text = path.read_text(encoding="utf-8")
    assert len(text) < 60_000
    assert str(Path.home()) not in text


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_outputs_what_it_shows(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numbers of a private run differ from run to run: words and kinds of outputs are compared."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    done = subprocess.run(
        [sys.executable, "-c", EXECUTE, str(path)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    for shown, made in zip(code_cells(path), code_cells(tmp_path / "executed.ipynb"), strict=True):
        assert words(made) == words(shown)


def words(cell: dict[str, Any]) -> list[str]:
    """Return the words of a cell's outputs without its numbers, and a mark for each picture."""
    found: list[str] = []
    for output in cell["outputs"]:
        data = output.get("data", {})
        found += ["picture"] if "image/png" in data else []
        text = "".join(output.get("text", data.get("text/plain", "")))
        found += [word for word in text.split() if not word[0].isdigit()]
    return found
