"""What an answer says about a group of k units."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from dppipe.cli.mechanisms.asked import at_delta, number
from dppipe.privacy.printing import shown


def pure_group(epsilon: float | Fraction, k: int) -> tuple[str, dict[str, Any]]:
    """Return the text and the data for a mechanism that is private with delta 0."""
    from dppipe.privacy.textbook.group import pure_group_epsilon

    found = pure_group_epsilon(epsilon, k)
    text = f"epsilon {shown(found)} with delta 0: {k} times epsilon (certified)"
    data = {"size": k, "epsilon": found, "delta": 0.0, "by": "k_epsilon", "certified": True}
    return text, data


def gaussian_group(s: float, k: int, *, delta: float) -> tuple[str, dict[str, Any]]:
    """Return the text and the data for Gaussian noise of s sensitivities."""
    from dppipe.privacy.textbook.group import converted_gaussian_epsilon, gaussian_group_epsilon

    exact = gaussian_group_epsilon(s, k, delta=delta)
    converted = converted_gaussian_epsilon(s, k, delta=delta)
    text = (
        f"{at_delta(exact, delta)} by the exact curve (certified); "
        f"conversion of one unit's curve says {_known(converted)}"
    )
    data = {
        "size": k,
        "epsilon": number(exact),
        "delta": delta,
        "by": "exact_curve",
        "certified": True,
        "converted_epsilon": number(converted),
    }
    return text, data


def _known(epsilon: float) -> str:
    return shown(epsilon) if math.isfinite(epsilon) else "nothing"


def draw_pure_group(figure: Any, epsilon: float, k: int, *, name: str) -> None:
    """Draw k epsilon over the size of the group."""
    axes = figure.subplots()
    sizes = range(1, k + 1)
    axes.plot(sizes, [size * epsilon for size in sizes], marker="o", markersize=3)
    _finish(axes, title=f"{name}: the epsilon of a group, with delta 0")


def draw_gaussian_group(figure: Any, s: float, k: int, *, delta: float) -> None:
    """Draw the exact and the converted epsilon over the size of the group."""
    from dppipe.privacy.textbook.group import converted_gaussian_epsilon, gaussian_group_epsilon

    axes = figure.subplots()
    sizes = _few_sizes(k)
    exact = [gaussian_group_epsilon(s, size, delta=delta) for size in sizes]
    converted = [converted_gaussian_epsilon(s, size, delta=delta) for size in sizes]
    one = exact[0]
    axes.plot(sizes, converted, "--", label="converted from one unit's curve (certified)")
    axes.plot(sizes, exact, marker="o", markersize=3, label="exact curve (certified)")
    axes.plot(
        sizes,
        [size * one for size in sizes],
        ":",
        color="grey",
        label="k times epsilon at the same δ: no bound",
    )
    axes.legend(fontsize=9)
    _finish(axes, title=f"Gaussian noise of {s:g} sensitivities: a group at δ = {delta:g}")


def _few_sizes(k: int) -> list[int]:
    return sorted({max(1, round(k * part / 32)) for part in range(1, 33)} | {1})


def _finish(axes: Any, *, title: str) -> None:
    axes.set(xlabel="units in the group", ylabel="ε of the group")
    axes.set_ylim(bottom=0)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_title(title, fontsize=10)
    axes.grid(alpha=0.3)
