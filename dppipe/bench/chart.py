"""A chart of a benchmark as one SVG: bars of step time next to ordinary training, whiskers at the quartiles."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from dppipe.bench.compare import Comparison

_WIDTH, _BAR, _GAP, _LEFT = 760, 16, 26, 230
_COLOURS = {"dppipe": "#1f6f8b"}
_OTHER = "#c9ced6"
LONGEST = 6.0
"""Ratios beyond this are cut off and written out."""


def draw_chart(comparisons: Sequence[Comparison]) -> str:
    """Give the chart as text."""
    rows: list[str] = []
    top = 34
    for comparison in comparisons:
        rows.append(
            f'<text x="8" y="{top + 12}" font-weight="bold">{escape(comparison.name)}: {escape(comparison.title)}</text>'
        )
        top += 22
        for times in comparison.contenders:
            if times.failed is None:
                rows += _bar(times.contender, times.ratio, times.low, times.high, top)
                top += _BAR + 4
        top += _GAP
    scale = [
        f'<line x1="{_x(tick)}" y1="26" x2="{_x(tick)}" y2="{top}" stroke="#e4e7eb"/>'
        f'<text x="{_x(tick)}" y="20" text-anchor="middle">{tick:g}x</text>'
        for tick in (0, 1, 2, 3, 4, 5, 6)
    ]
    size = f'width="{_WIDTH}" height="{top}" font-family="sans-serif" font-size="12" fill="#20262e"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size}>'
    return (
        "\n".join(
            [head, '<rect width="100%" height="100%" fill="white"/>', *scale, *rows, "</svg>"]
        )
        + "\n"
    )


def _bar(name: str, ratio: float, low: float, high: float, top: int) -> list[str]:
    length = _x(ratio) - _LEFT
    middle = top + _BAR / 2
    label = f"{ratio:.2f}x" if ratio <= LONGEST else f"{ratio:.0f}x, cut off"
    return [
        f'<text x="{_LEFT - 8}" y="{top + 12}" text-anchor="end">{escape(name)}</text>',
        f'<rect x="{_LEFT}" y="{top}" width="{length:.1f}" height="{_BAR}" fill="{_COLOURS.get(name, _OTHER)}"/>',
        f'<line x1="{_x(low):.1f}" y1="{middle}" x2="{_x(high):.1f}" y2="{middle}" stroke="#20262e"/>',
        f'<text x="{_x(max(ratio, high)) + 6:.1f}" y="{top + 12}">{label}</text>',
    ]


def _x(ratio: float) -> float:
    return _LEFT + min(ratio, LONGEST) * (_WIDTH - _LEFT - 90) / LONGEST
