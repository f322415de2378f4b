"""Pictures of `dppipe account --plot`: an empty figure, and writing it to a file."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from dppipe.errors import UsageError


def new_figure() -> Any:
    """Return an empty figure; say what to install where matplotlib is missing."""
    try:
        figures: Any = importlib.import_module("matplotlib.figure")
    except ImportError:
        raise UsageError(
            "--plot: expected matplotlib to be installed. Install dppipe[plot], or leave it out."
        ) from None
    return figures.Figure(figsize=(7.5, 4.5), dpi=150, layout="constrained")


def save_figure(figure: Any, path: Path) -> None:
    """Write a figure; its file's name decides the format."""
    try:
        figure.savefig(path)
    except (OSError, ValueError) as error:
        raise UsageError(
            "--plot: expected a picture that can be written, such as curve.png, "
            f"got {path} ({error})."
        ) from None
