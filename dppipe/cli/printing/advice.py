"""Advice for a person, within 80 columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dppipe.cli.printing.wrapping import fill, table, wrapped
from dppipe.privacy.printing import shown, shown_delta

if TYPE_CHECKING:
    from dppipe.planning.advising.advice import Advice
    from dppipe.planning.advising.batches import BatchRow
    from dppipe.planning.advising.learners import LearnerRow


def advice_text(advice: Advice) -> str:
    """Lay advice out: both tables, the blocks of a spec, and the reasons."""
    from dppipe.planning.advising.advice import SOURCES

    facts = advice.facts
    passes = facts.examples_seen / facts.records
    heading = (
        f"{facts.records:,} records, epsilon {facts.epsilon:g} at delta "
        f"{shown_delta(facts.delta)}, {facts.relation}; {facts.examples_seen:,} examples seen "
        f"({passes:.3g} epochs)"
    )
    parts = [
        wrapped(heading),
        "DP-SGD by batch size, costs certified by pld (* proposed)\n" + _batches(advice),
        _learners(advice),
        advice.spec(),
        "\n".join(fill(reason, first="- ", rest="  ") for reason in advice.reasons()),
        f"sources\n{table(SOURCES)}",
    ]
    return "\n\n".join(parts)


def _batches(advice: Advice) -> str:
    least = min(row.total_noise for row in advice.rows)
    names = ["batch", "steps", "sample rate", "noise z", "epsilon", "z / batch", "total noise"]
    if advice.facts.dimension is not None:
        names.append("norm")
    lines = [names]
    for row in advice.rows:
        lines.append(_batch(row, least=least, proposed=row is advice.chosen))
    return _aligned(lines)


def _batch(row: BatchRow, *, least: float, proposed: bool) -> list[str]:
    cells = [
        f"{'*' if proposed else ''}{row.batch_size}",
        f"{row.steps}",
        f"{row.sample_rate:.3g}",
        f"{row.noise_multiplier:.4g}",
        shown(row.epsilon),
        f"{row.noise_to_batch:.3g}",
        f"{row.total_noise / least:.2f} x",
    ]
    if row.noise_norm is not None:
        cells.append(f"{row.noise_norm:.3g}")
    return cells


def _learners(advice: Advice) -> str:
    found = advice.learners
    heading = (
        f"learners, as measured on {found.task} at epsilon {found.epsilon:g} with a linear model; "
        "their epsilon is that of the same setting for your numbers"
    )
    lines = [["learner", found.best.score, "epsilon", "note"]]
    lines += [_learner(row) for row in found.rows]
    return f"{wrapped(heading)}\n{_aligned(lines, words=(0, 3))}"


def _learner(row: LearnerRow) -> list[str]:
    score = f"{row.mean:.3f} +- {row.spread:.3f}"
    cost = "" if row.epsilon is None else shown(row.epsilon)
    return [row.learner, score, cost, row.note]


def _aligned(lines: Sequence[Sequence[str]], *, words: Sequence[int] = ()) -> str:
    """Lay rows out in columns; those of words stand at the left."""
    columns = []
    for number, cells in enumerate(zip(*lines, strict=True)):
        width = max(map(len, cells))
        if number in words:
            columns.append([cell.ljust(width) for cell in cells])
        else:
            columns.append([cell.rjust(width) for cell in cells])
    return "\n".join(("  " + "  ".join(cells)).rstrip() for cells in zip(*columns, strict=True))
