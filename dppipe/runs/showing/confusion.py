"""A confusion matrix: one number a cell where it is logged, rows of them where it is written.

The names of the cells end in the number of the true class and that of the predicted one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

_CELL = re.compile(r"(.*confusion_matrix)/(\d+)/(\d+)")


def fold_cells(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Return metrics with all cells of a matrix as one list of rows, a true class each.

    Example:
        >>> from dppipe.runs.showing.confusion import fold_cells
        >>> cells = {"confusion_matrix/0/0": 5, "confusion_matrix/0/1": 1}
        >>> fold_cells(cells | {"confusion_matrix/1/0": 2, "confusion_matrix/1/1": 3})
        {'confusion_matrix': [[5, 1], [2, 3]]}
    """
    folded: dict[str, Any] = {}
    for name, value in metrics.items():
        cell = _CELL.fullmatch(name)
        side = 0 if cell is None else _side(metrics, cell[1])
        if cell is None or not side:
            folded[name] = value
        elif cell[1] not in folded:
            matrix = [
                [metrics[f"{cell[1]}/{true}/{of}"] for of in range(side)] for true in range(side)
            ]
            folded[cell[1]] = matrix
    return folded


def unfold_cells(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Return metrics with each cell of a matrix under a name of its own."""
    found: dict[str, Any] = {}
    for name, value in metrics.items():
        if not isinstance(value, list):
            found[name] = value
            continue
        for true, row in enumerate(value):
            for predicted, count in enumerate(row):
                found[f"{name}/{true}/{predicted}"] = count
    return found


def shown_metrics(metrics: Mapping[str, float]) -> dict[str, str]:
    """Return metrics as text: four decimals, and the counts of a confusion matrix in rows."""
    shown: dict[str, str] = {}
    for name, value in fold_cells(metrics).items():
        if isinstance(value, list):
            shown[name] = "; ".join(" ".join(f"{count:g}" for count in row) for row in value)
        else:
            shown[name] = f"{value:.4f}"
    return shown


def _side(metrics: Mapping[str, Any], name: str) -> int:
    """Return the number of classes of a whole matrix, and 0 where a cell is missing."""
    cells = [key for key in metrics if key.startswith(f"{name}/")]
    side = math.isqrt(len(cells))
    whole = all(f"{name}/{true}/{of}" in metrics for true in range(side) for of in range(side))
    return side if whole and side * side == len(cells) else 0
