"""The picture of a gradient inversion: what each attack found, beside the original."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dppipe.audit.attacks.drawing import draw_input
from dppipe.audit.attacks.gradients.summary import TELLS_APART, verdict
from dppipe.audit.attacks.gradients.trial import SEEN, Trial

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from dppipe.audit.attacks.gradients.setting import Setting

_TOLD = "#b00020"
_HIDDEN = "#1b5e20"


def draw_trial(figure: Figure, setting: Setting, trial: Trial) -> None:
    """Draw a row for each thing that was seen, and a column for each method."""
    methods = list(next(iter(trial.outcomes.values())))
    rows = list(trial.outcomes)
    height = 1.45 if setting.known.is_image else 1.25
    figure.set_size_inches(7.5, 1.0 + height * len(rows))
    grid: Any = figure.subplots(len(rows), 1 + len(methods), squeeze=False)
    original = setting.victim[0][0]
    limits = setting.known.box
    for axes, seen in zip(grid, rows, strict=True):
        draw_input(axes[0], original, limits=limits, beside=original)
        axes[0].set_ylabel(SEEN[seen], rotation=0, ha="right", va="center", fontsize=9)
        for place, method in enumerate(methods, start=1):
            outcome = trial.outcomes[seen][method]
            if outcome is None:
                _leave_empty(axes[place])
                continue
            draw_input(axes[place], outcome.found.record, limits=limits, beside=original)
            is_told = outcome.place <= TELLS_APART * trial.candidates
            colour = _TOLD if is_told else _HIDDEN
            axes[place].set_xlabel(f"{outcome.mse:.1e}", fontsize=8, color=colour, labelpad=2)
    for axes, name in zip(grid[0], ["original", *methods], strict=True):
        axes.set_title(name, fontsize=9)
    figure.suptitle(verdict(trial).replace(". ", ".\n", 1), fontsize=10)
    figure.supxlabel(
        f"Below each: mean squared error, red where it tells the record from "
        f"{trial.candidates - 1} others; the mean record's is {trial.mean_mse:.1e}",
        fontsize=8,
    )


def _leave_empty(axes: Any) -> None:
    axes.set_axis_off()
    axes.text(0.5, 0.5, "can't be used", ha="center", va="center", fontsize=8)
