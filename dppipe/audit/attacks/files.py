"""The files of an attack: a folder under `nonprivate/attack/` in the run directory.

What an attack on made-up records has found stands under `attack/`: no real record is in it.

A folder is written whole or not at all. The run's statement says that attacks were made before
the first result appears.
"""

from __future__ import annotations

import importlib
import json
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dppipe.durable import sync
from dppipe.runs.directory import RunDirectory, cannot_write
from dppipe.runs.page.documents import write_documents

if TYPE_CHECKING:
    from dppipe.audit.attacks.report import Report

WARNING = (
    "Computed from real records without noise: no guarantee covers it. Don't release it, nor "
    "choose a model by it."
)

MADE_UP = "Computed from made-up records: nothing here says anything of a real one."


def write_report(run: RunDirectory, report: Report) -> Path:
    """Write the files of an attack, and return their folder.

    The same attack's earlier folder is replaced.
    """
    place = run.attacks if report.from_records else run.made_up_attacks
    folder = place / f"{report.kind}-{report.method}"
    temporary = folder.with_name(f".{folder.name}.tmp-{secrets.token_hex(4)}")
    try:
        temporary.mkdir(parents=True)
        if report.from_records:
            write_documents(run)
        _fill(temporary, report)
        if folder.exists():
            shutil.rmtree(folder)
        temporary.replace(folder)
        sync(folder.parent)
    except OSError as error:
        raise cannot_write(folder, error) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return folder


def _fill(folder: Path, report: Report) -> None:
    has_picture = _draw(folder / report.picture, report)
    data: dict[str, Any] = {"kind": report.kind, "method": report.method}
    if report.from_records:
        data |= {"private": False, "warning": WARNING}
    else:
        data["note"] = MADE_UP
    data |= report.data
    (folder / "attack.json").write_text(json.dumps(data, indent=2, allow_nan=False) + "\n")
    text = "\n".join(_page(report, has_picture=has_picture)) + "\n"
    (folder / "attack.md").write_text(text)
    for file in folder.iterdir():
        sync(file)


def _page(report: Report, *, has_picture: bool) -> Iterator[str]:
    by = "each method" if report.method == "all" else report.method
    yield f"# Attack: {report.kind}, by {by}\n"
    yield f"**{WARNING if report.from_records else MADE_UP}**\n"
    yield "```"
    yield from report.lines
    yield "```"
    if has_picture:
        yield f"\n![{report.kind} by {by}]({report.picture})"
    for paragraph in report.text:
        yield f"\n{paragraph}"


def _draw(path: Path, report: Report) -> bool:
    """Draw the picture, where there is one and matplotlib is installed."""
    if report.draw is None or not can_draw():
        return False
    figures: Any = importlib.import_module("matplotlib.figure")
    figure = figures.Figure(figsize=(7.5, 4.8), dpi=110, layout="constrained")
    report.draw(figure)
    figure.savefig(path)
    return True


def can_draw() -> bool:
    """Return whether matplotlib is installed, which the `plot` extra brings."""
    try:
        importlib.import_module("matplotlib.figure")
    except ImportError:
        return False
    return True
