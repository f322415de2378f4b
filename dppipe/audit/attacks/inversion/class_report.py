"""The report of inverted classes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from statistics import fmean
from typing import TYPE_CHECKING, Any

from dppipe.audit.attacks.drawing import draw_input
from dppipe.audit.attacks.inversion.class_trial import (
    OWN_MEAN,
    PRIVATE,
    START,
    TWIN,
    ClassTrial,
)
from dppipe.audit.attacks.inversion.judging import Judgement, chance_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from dppipe.audit.attacks.box import Box
    from dppipe.audit.attacks.claim import Claim

_LABEL = 18
_SURPRISING = 0.01
"""A count that fair coins reach with a smaller chance than this is called surprising."""
_DRAWN = (PRIVATE, TWIN, OWN_MEAN)
_MOST_COLUMNS = 10


def verdict(trial: ClassTrial) -> str:
    """Say in words whether what was drawn is about members."""
    private = _says_member(trial.judged[PRIVATE])
    twin = _says_member(trial.judged[TWIN]) if TWIN in trial.judged else False
    if private:
        return "What the private model shows is nearer to members than chance explains."
    if twin:
        return "The twin's results are nearer to members than chance explains; the run's aren't."
    return "What the models show of a class is no nearer to members than to others."


def _says_member(judged: Sequence[Judgement]) -> bool:
    return chance_of(_nearer(judged), len(judged)) < _SURPRISING


def _nearer(judged: Sequence[Judgement]) -> float:
    return math.fsum(each.nearer_to_member for each in judged)


def screen_lines(trial: ClassTrial, claim: Claim) -> list[str]:
    """Return what a screen shows: the verdict first."""
    what = f"{len(trial.classes)} classes" if len(trial.classes) > 1 else "one class"
    lines = [verdict(trial), f"{what} inverted, prior {trial.prior}", ""]
    heading = ("model's p", "matched", "member", "other", "nearer to member")
    lines.append(
        " " * _LABEL + "".join(f"{name:>11}" for name in heading[:4]) + f"{heading[4]:>18}"
    )
    for name, judged in trial.judged.items():
        lines.append(name.ljust(_LABEL) + _row(judged, is_one_input=name == START))
    lines.append("member, other: squared error to the nearest of as many, mean over classes")
    lines.append(
        f"Membership can be told with an advantage of at most {claim.advantage:.3g} by any attack."
    )
    return lines


def _row(judged: Sequence[Judgement], *, is_one_input: bool) -> str:
    known = [each.matched for each in judged if each.matched is not None]
    matched = f"{sum(known)}/{len(known)}" if known else "-"
    cells = [
        f"{fmean(each.confidence for each in judged):.3f}",
        matched,
        f"{fmean(each.member.mse for each in judged):.3g}",
        f"{fmean(each.other.mse for each in judged):.3g}",
    ]
    # One input for all classes is nearer to members or isn't: that is no count.
    nearer = "-" if is_one_input else f"{_nearer(judged):g}/{len(judged)}"
    return "".join(f"{cell:>11}" for cell in cells) + f"{nearer:>18}"


def paragraphs(trial: ClassTrial, *, seed: int) -> Iterator[str]:
    """Yield the paragraphs of the page."""
    yield (
        "An input of each class was searched that the model is sure about (Fredrikson, Jha and "
        "Ristenpart 2015), or drawn by a generator (after Hitaj, Ateniese and Perez-Cruz 2017). "
        f"The public seed is {seed}. Half of the holdout is the attacker's own; the other half is "
        "compared with as many members."
    )
    yield (
        f"*{OWN_MEAN}* is the mean of the attacker's own records of the class, and *{START}* the "
        "mean of all of them, where the search starts: both need no model. *Matched* counts the "
        "classes that a logistic regression of the attacker's own records takes for right. *Nearer "
        "to member* counts those whose nearest record of all is a member: by chance, half of them."
    )
    yield (
        "A good picture of a class is no violation: the privacy of a record doesn't hide what a "
        "class looks like. Only a user's privacy does, where a whole class is one user's."
    )
    yield "\n".join(_table(trial))


def _table(trial: ClassTrial) -> Iterator[str]:
    yield "| | class | model's p | matched | member: MSE | SSIM | other: MSE | SSIM |"
    yield "|---|---|---|---|---|---|---|---|"
    for name, judged in trial.judged.items():
        for each in judged:
            matched = {True: "yes", False: "no", None: ""}[each.matched]
            cells = [f"{each.confidence:.3f}", matched]
            for side in (each.member, each.other):
                cells += [f"{side.mse:.3g}", "" if side.ssim is None else f"{side.ssim:.3f}"]
            yield f"| {name} | {each.number} | {' | '.join(cells)} |"


def as_data(trial: ClassTrial, claim: Claim) -> dict[str, Any]:
    """Return everything as plain data."""
    judged: dict[str, Any] = {}
    for name, found in trial.judged.items():
        judged[name] = {
            "classes": [asdict(each) for each in found],
            "nearer_to_member": _nearer(found),
            "chance_of_that": chance_of(_nearer(found), len(found)),
        }
    return {
        "verdict": verdict(trial),
        "prior": trial.prior,
        "judged": judged,
        "claim": claim.to_data(),
    }


def draw_classes(figure: Figure, trial: ClassTrial, *, box: Box | None) -> None:
    """Draw a row for each way to draw a class, and a column for each class."""
    rows = [name for name in _DRAWN if name in trial.inverted]
    classes = trial.classes[:_MOST_COLUMNS]
    figure.set_size_inches(max(5.5, 1.9 + 0.85 * len(classes)), 0.8 + 0.95 * len(rows))
    grid: Any = figure.subplots(len(rows), len(classes), squeeze=False)
    for axes, name in zip(grid, rows, strict=True):
        found = trial.inverted[name]
        for place, number in enumerate(classes):
            axes[place].set_xticks([])
            axes[place].set_yticks([])
            if number in found.classes:
                record = found.records[found.classes.index(number)]
                draw_input(axes[place], record, limits=box, beside=found.records)
        axes[0].set_ylabel(name, rotation=0, ha="right", va="center", fontsize=9)
    for place, number in enumerate(classes):
        grid[0][place].set_title(f"class {number}" if len(classes) < 6 else f"{number}", fontsize=9)
    figure.suptitle(verdict(trial), fontsize=10)
