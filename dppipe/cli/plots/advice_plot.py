"""The picture of `dppipe advise --plot`: what epsilon buys by batch size at fixed examples seen."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dppipe.cli.plots.figures import new_figure, save_figure

if TYPE_CHECKING:
    from dppipe.planning.advising.advice import Advice
    from dppipe.planning.advising.batches import BatchRow

_BESIDE = (1 / 3, 1.0, 3.0)
"""The epsilons that are drawn, as multiples of the one that was asked about."""


def write_advice_plot(advice: Advice, path: Path) -> None:
    """Draw a step's noise and the total noise over the batch size, a line for each epsilon."""
    from dppipe.planning.advising.batches import batch_rows, proposed

    figure = new_figure()
    figure.set_size_inches(9, 4.2)
    left, right = figure.subplots(1, 2)
    for factor in _BESIDE:
        epsilon = advice.facts.epsilon * factor
        rows = list(advice.rows)
        if factor != 1.0:
            rows = batch_rows(replace(advice.facts, epsilon=epsilon))
        chosen = proposed(rows)
        label = f"ε = {epsilon:.3g}"
        _line(left, rows, chosen, [row.noise_to_batch for row in rows], label=label)
        _line(right, rows, chosen, [row.total_noise for row in rows], label=label)
    left.set_ylabel("noise of one step, in bounds: z / batch")
    right.set_ylabel("total noise: z / (batch √steps)")
    for axes in (left, right):
        axes.set(xscale="log", yscale="log", xlabel="batch size (ring: proposed)")
        axes.grid(alpha=0.3)
    left.legend(fontsize=9)
    facts = advice.facts
    title = f"{facts.records:,} records, {facts.examples_seen:,} examples seen, δ = {facts.delta:g}"
    figure.suptitle(title, fontsize=10)
    save_figure(figure, path)


def _line(
    axes: Any, rows: list[BatchRow], chosen: BatchRow, values: list[float], *, label: str
) -> None:
    sizes = [row.batch_size for row in rows]
    (line,) = axes.plot(sizes, values, ".-", label=label, linewidth=1.6)
    at = rows.index(chosen)
    ring = {"markersize": 11, "markerfacecolor": "none", "color": line.get_color()}
    axes.plot([sizes[at]], [values[at]], "o", **ring)
