"""The report of an inferred column."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from dppipe.audit.attacks.inversion.attribute_trial import (
    PRIOR_ALONE,
    AttributeTrial,
    Hits,
)
from dppipe.audit.attacks.inversion.class_trial import PRIVATE, TWIN

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from dppipe.audit.attacks.claim import Claim

_LABEL = 18


def verdict(trial: AttributeTrial, claim: Claim) -> str:
    """Say in words whether members are guessed better than others."""
    least, _ = trial.hits[PRIVATE].bounds
    name = trial.values.place.name
    if least > claim.advantage:
        return (
            f"{name!r} is guessed better for members than the certificate allows, unless members "
            "and others differ for another reason."
        )
    if least > 0:
        return f"{name!r} is guessed a little better for members, within the certificate."
    if TWIN in trial.hits and trial.hits[TWIN].bounds[0] > 0:
        return f"The twin gives {name!r} of members away; of the private model it wasn't shown."
    return f"{name!r} isn't shown to be guessed better for members than for others."


def screen_lines(trial: AttributeTrial, claim: Claim) -> list[str]:
    """Return what a screen shows: the verdict first."""
    each = next(iter(trial.hits.values())).each
    lines = [verdict(trial, claim), f"{each} members and {each} others", ""]
    heading = ("members", "others", "difference", "with 95 %")
    lines.append(
        "right guesses".ljust(_LABEL)
        + "".join(f"{name:>12}" for name in heading[:3])
        + f"{heading[3]:>20}"
    )
    for name, hits in trial.hits.items():
        lines.append(name.ljust(_LABEL) + _row(hits))
    lines.append(
        f"The certificate allows any attack a difference of at most {claim.advantage:.3g}."
    )
    return lines


def _row(hits: Hits) -> str:
    least, most = hits.bounds
    cells = [
        f"{hits.members / hits.each:.3f}",
        f"{hits.others / hits.each:.3f}",
        f"{hits.difference:+.3f}",
    ]
    between = f"{least:+.3f} to {most:+.3f}"
    return "".join(f"{cell:>12}" for cell in cells) + f"{between:>20}"


def paragraphs(trial: AttributeTrial, *, seed: int) -> Iterator[str]:
    """Yield the paragraphs of the page."""
    labels = ", ".join(trial.values.labels)
    yield (
        f"The attacker knows all other columns and the target, and guesses "
        f"{trial.values.place.name!r} among {len(trial.values.labels)} values: {labels}. The prior "
        "was counted on half of the holdout, which is the attacker's own; the other half are the "
        f"others (public seed {seed})."
    )
    yield (
        f"*{PRIOR_ALONE}* always guesses the commonest value. What a model adds to that, for "
        "members and others alike, is knowledge about people in general, which no privacy of one "
        "record hides. The difference between members and others is what membership gives away: "
        "any attack's is at most the certificate's delta at epsilon 0 (Yeom et al. 2018; Dong, "
        "Roth and Su 2022). It is about membership by chance: members and others of a natural "
        "split may also differ in distribution."
    )


def as_data(trial: AttributeTrial, claim: Claim) -> dict[str, Any]:
    """Return everything as plain data."""
    hits: dict[str, Any] = {}
    for name, found in trial.hits.items():
        hits[name] = {
            "right_of_members": found.members,
            "right_of_others": found.others,
            "of_each": found.each,
            "difference": found.difference,
            "difference_bounds": list(found.bounds),
        }
    return {
        "verdict": verdict(trial, claim),
        "column": trial.values.place.name,
        "values": list(trial.values.labels),
        "hits": hits,
        "claim": claim.to_data(),
    }


def draw_hits(figure: Figure, trial: AttributeTrial, claim: Claim) -> None:
    """Draw each difference with its bounds beside the most that the certificate allows."""
    figure.set_size_inches(7.5, 1.6 + 0.55 * len(trial.hits))
    axes: Any = figure.subplots()
    names = list(trial.hits)
    for place, name in enumerate(names):
        hits = trial.hits[name]
        least, most = hits.bounds
        axes.plot([least, most], [place, place], color="#1f4e79", linewidth=2)
        axes.plot([hits.difference], [place], "o", color="#1f4e79")
    right = max(claim.advantage * 1.15, *(hits.bounds[1] for hits in trial.hits.values()))
    axes.axvline(0, color="0.6", linewidth=0.8)
    axes.axvline(claim.advantage, color="#b00020", linewidth=1.5)
    axes.axvspan(claim.advantage, right * 1.05, color="#b00020", alpha=0.08)
    axes.annotate(
        "most that the certificate allows",
        (claim.advantage, -0.42),
        ha="right",
        va="center",
        fontsize=8,
        color="#b00020",
        xytext=(-4, 0),
        textcoords="offset points",
    )
    axes.set_xlim(right=right * 1.05)
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.7)
    axes.set_xlabel("right guesses of members minus those of others")
    figure.suptitle(verdict(trial, claim), fontsize=10)
