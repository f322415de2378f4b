"""A chart of a benchmark as one SVG: step times next to ordinary training, with quartiles."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from dppipe.bench.compare import Comparison

_WIDTH = 760
_BAR = 16
_GAP = 26
_LEFT = 230
_COLOURS = {"dppipe": "#1f6f8b"}
_OTHER = "#c9ced6"
LONGEST = 6.0
"""Ratios beyond this are cut off and written out."""


def draw_chart(comparisons: Sequence[Comparison]) -> str:
    """Return the chart as text."""
    rows: list[str] = []
    top = 34
    for comparison in comparisons:
        title = f"{escape(comparison.name)}: {escape(comparison.title)}"
        rows.append(f'<text x="8" y="{top + 12}" font-weight="bold">{title}</text>')
        top += 22
        for times in comparison.contenders:
            if times.failed is None:
                rows += _bar(times.contender, times.ratio, times.low, times.high, top)
                top += _BAR + 4
        top += _GAP
    scale = [_tick(tick, height=top) for tick in range(7)]
    size = f'width="{_WIDTH}" height="{top}" font-family="sans-serif" font-size="12" fill="#20262e"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size}>'
    background = '<rect width="100%" height="100%" fill="white"/>'
    return "\n".join([head, background, *scale, *rows, "</svg>"]) + "\n"


def _tick(ratio: int, *, height: int) -> str:
    x = _x(ratio)
    return (
        f'<line x1="{x}" y1="26" x2="{x}" y2="{height}" stroke="#e4e7eb"/>'
        f'<text x="{x}" y="20" text-anchor="middle">{ratio:g}x</text>'
    )


def _bar(name: str, ratio: float, low: float, high: float, top: int) -> list[str]:
    length = _x(ratio) - _LEFT
    middle = top + _BAR / 2
    label = f"{ratio:.2f}x" if ratio <= LONGEST else f"{ratio:.0f}x, cut off"
    colour = _COLOURS.get(name, _OTHER)
    return [
        f'<text x="{_LEFT - 8}" y="{top + 12}" text-anchor="end">{escape(name)}</text>',
        f'<rect x="{_LEFT}" y="{top}" width="{length:.1f}" height="{_BAR}" fill="{colour}"/>',
        f'<line x1="{_x(low):.1f}" y1="{middle}" x2="{_x(high):.1f}" y2="{middle}" '
        'stroke="#20262e"/>',
        f'<text x="{_x(max(ratio, high)) + 6:.1f}" y="{top + 12}">{label}</text>',
    ]


def _x(ratio: float) -> float:
    return _LEFT + min(ratio, LONGEST) * (_WIDTH - _LEFT - 90) / LONGEST
