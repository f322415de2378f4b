"""Tables of several columns in one form: names above, numbers to the right, within 80 columns."""

from __future__ import annotations

from collections.abc import Sequence

from dppipe.cli.printing.wrapping import WIDTH, fill

_GAP = "  "


def columns(
    names: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: Sequence[str] = ()
) -> str:
    """Lay out rows below the names of their columns, within 80 characters.

    The last column is wrapped below itself where it doesn't fit.

    Args:
        numbers: the names of the columns that are aligned to the right.
    """
    cells = [list(names), *map(list, rows)]
    widths = [max(len(row[place]) for row in cells) for place in range(len(names))]
    lines = []
    for row in cells:
        first = ""
        for name, cell, width in zip(names[:-1], row, widths, strict=False):
            first += _GAP + (cell.rjust(width) if name in numbers else cell.ljust(width))
        last = row[-1].rjust(widths[-1]) if names[-1] in numbers else row[-1]
        first += _GAP
        if len(first) + len(last) <= WIDTH:
            lines.append(f"{first}{last}".rstrip())
        else:
            lines.append(fill(last, first=first, rest=" " * len(first)))
    return "\n".join(lines)
