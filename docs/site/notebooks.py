"""Pages of the site from the executed notebooks in `docs/notebooks/`: text, code and outputs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

FOLDER = Path(__file__).parents[1] / "notebooks"


def on_files(files: Files, config: Any) -> Files:
    """Add a page for each notebook; the notebook itself is there to download."""
    for path in sorted(FOLDER.glob("*.ipynb")):
        page = as_page(json.loads(path.read_text(encoding="utf-8")), name=path.name)
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=page))
    return files


def as_page(notebook: dict[str, Any], *, name: str) -> str:
    """Return a notebook as Markdown, with its pictures in the page."""
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        parts += _outputs(cell["outputs"])
    parts.append(f"[The notebook, to run it yourself]({name})")
    return "\n\n".join(parts) + "\n"


def _outputs(outputs: list[dict[str, Any]]) -> list[str]:
    """Return each picture, and what was printed in one block."""
    pictures = []
    printed = []
    for output in outputs:
        data = output.get("data", {})
        if "image/png" in data:
            picture = "".join(data["image/png"]).replace("\n", "")
            pictures.append(f"![Output of the code above](data:image/png;base64,{picture})")
        else:
            text = "".join(output.get("text", data.get("text/plain", "")))
            printed.append(text.rstrip())
    block = ["```text\n" + "\n".join(printed) + "\n```"] if printed else []
    return [*block, *pictures]
