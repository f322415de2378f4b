"""Plots as SVG that stands in the page itself and takes its colours from the page's style.

A plot is drawn by matplotlib in colours that no picture has. In the SVG each becomes a variable
of the page's style, so that one picture serves light, dark and print. The same plot has the same
bytes: identifiers are hashed with the plot's own name, and no date is written.
"""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from markupsafe import Markup

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

COLOURS = {
    "ink": "#010001",
    "muted": "#010002",
    "grid": "#010003",
    "spent": "#010004",
    "planned": "#010005",
    "budget": "#010006",
    "alarm": "#010007",
}
"""The colours of plots by the names that the page's style gives them."""
_SVG = "{http://www.w3.org/2000/svg}"
_LINK = "{http://www.w3.org/1999/xlink}href"
_POINTS_PER_INCH = 72
_FONTS = re.compile(r"font: ([\d.]+)px [^;]*")
_MOST_POINTS = 400
"""More points of a line than this can't be told apart on a page."""


class Plot:
    """One plot under way.

    Example:
        >>> from dppipe.runs.page.markup.plots import COLOURS, Plot
        >>> plot = Plot("curve", x="step", y="epsilon")
        >>> line = plot.axes.plot([0, 1], [0, 2], color=COLOURS["spent"])
        >>> plot.tip(1, 2, "step 1: epsilon 2")
        >>> print(plot.svg("epsilon after each step")[:4])
        <svg
    """

    def __init__(
        self, name: str, *, x: str, y: str, height: float = 2.9, left: float = 0.6
    ) -> None:
        """Start a plot.

        Args:
            name: A name that no other plot of the page has.
            x: What the horizontal axis shows.
            y: What the vertical axis shows.
            height: In inches, as all lengths.
            left: The room left of the axes.
        """
        from matplotlib import rc_context
        from matplotlib.figure import Figure

        self._name = name
        self._width = 5.2
        self._height = height
        self._tips: list[tuple[float, float, str]] = []
        with rc_context(_style(name)):
            self._figure = Figure(figsize=(self._width, height))
            bottom = 0.46 / height
            top = 1 - (0.26 if y else 0.1) / height
            rectangle = (left / self._width, bottom, 0.95 - left / self._width, top - bottom)
            self.axes: Axes = self._figure.add_axes(rectangle)
            self.axes.set_xlabel(x)
            # Above the axis, where it crosses no number on a narrow screen.
            self.axes.set_title(y, loc="left", fontsize=9)
            self.axes.grid(visible=True)
            for side in ("top", "right"):
                self.axes.spines[side].set_visible(False)

    def tip(self, x: float, y: float, text: str) -> None:
        """Show a text where the mouse is at a point."""
        self._tips.append((x, y, text))

    def decades(self, *, x: bool = True, y: bool = True) -> None:
        """Make axes logarithmic, with ticks at powers of ten alone."""
        from matplotlib.ticker import FormatStrFormatter, LogLocator, NullLocator

        axes = self.axes
        for wanted, axis, change in (
            (x, axes.xaxis, axes.set_xscale),
            (y, axes.yaxis, axes.set_yscale),
        ):
            if wanted:
                change("log")
                axis.set_major_locator(LogLocator(numticks=9))
                axis.set_minor_locator(NullLocator())
                axis.set_major_formatter(FormatStrFormatter("%g"))

    def note(
        self,
        x: float,
        y: float,
        text: str,
        *,
        colour: str = "ink",
        off: tuple[float, float] = (0, 0),
        **options: Any,
    ) -> None:
        """Write a text at a point, or so many points right of it and above it."""
        self.axes.annotate(
            text,
            (x, y),
            xytext=off,
            textcoords="offset points",
            color=COLOURS[colour],
            fontsize=8.5,
            **options,
        )

    def svg(self, label: str) -> Markup:
        """Return the plot as markup; `label` says what it shows to who can't see it."""
        from matplotlib import rc_context

        written = io.StringIO()
        with rc_context(_style(self._name)):
            self._figure.savefig(written, format="svg", metadata={"Date": None})
        root = ElementTree.fromstring(written.getvalue())
        self._clean(root, label)
        self._add_tips(root)
        ElementTree.register_namespace("", _SVG[1:-1])
        ElementTree.register_namespace("xlink", _LINK[1:].split("}")[0])
        text = ElementTree.tostring(root, encoding="unicode")
        text = _FONTS.sub(r"font-size: \1px", text)
        for name, colour in COLOURS.items():
            text = text.replace(colour, f"var(--{name})")
        return Markup(text)  # the tree has escaped what was put into it

    def _clean(self, root: ElementTree.Element, label: str) -> None:
        """Take out what a page has itself, and identifiers that nothing refers to."""
        for name in ("width", "height", "version"):
            root.attrib.pop(name, None)
        root.set("role", "img")
        root.set("aria-label", label)
        for parent in list(root.iter()):
            for child in list(parent):
                if child.tag.endswith(("metadata", "}style")):
                    parent.remove(child)
            if parent.tag == f"{_SVG}g":
                parent.attrib.pop("id", None)

    def _add_tips(self, root: ElementTree.Element) -> None:
        scale = _POINTS_PER_INCH / self._figure.dpi
        for x, y, text in self._tips:
            across, up = self.axes.transData.transform((x, y))
            place = {
                "cx": f"{across * scale:.1f}",
                "cy": f"{self._height * _POINTS_PER_INCH - up * scale:.1f}",
                "r": "5",
                "class": "tip",
            }
            circle = ElementTree.SubElement(root, f"{_SVG}circle", place)
            ElementTree.SubElement(circle, f"{_SVG}title").text = text


def thinned(count: int, *, most: int = _MOST_POINTS) -> Sequence[int]:
    """Return which of so many points are drawn: the first, the last, and evenly between them."""
    if count <= most:
        return range(count)
    return sorted({round(place * (count - 1) / (most - 1)) for place in range(most)})


def _style(name: str) -> Any:  # its keys are literals of matplotlib, one by one
    ink = COLOURS["ink"]
    muted = COLOURS["muted"]
    return {
        "svg.fonttype": "none",
        "svg.hashsalt": name,
        "font.size": 9,
        "text.color": ink,
        "text.parse_math": False,
        "axes.labelcolor": ink,
        "axes.edgecolor": muted,
        "axes.facecolor": "none",
        "axes.axisbelow": True,
        "axes.formatter.use_mathtext": False,
        "xtick.color": muted,
        "ytick.color": muted,
        "xtick.labelcolor": ink,
        "ytick.labelcolor": ink,
        "grid.color": COLOURS["grid"],
        "grid.linewidth": 0.6,
        "figure.facecolor": "none",
        "savefig.facecolor": "none",
        "lines.linewidth": 1.8,
    }
