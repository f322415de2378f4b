"""All attacks on all that an attacker may see, side by side."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from torch import Tensor

from dppipe.audit.attacks.gradients.cosine import recover_by_direction
from dppipe.audit.attacks.gradients.distance import recover_by_distance
from dppipe.audit.attacks.gradients.exact import (
    Ends,
    find_ends,
    recover_exactly,
    recover_target,
)
from dppipe.audit.attacks.gradients.inputs import (
    clipped_gradient,
    raw_gradient,
    released_gradient,
)
from dppipe.audit.attacks.gradients.knowledge import Gradient, Knowledge, Recovered, flat
from dppipe.audit.attacks.gradients.searching import Search
from dppipe.audit.attacks.gradients.setting import Setting
from dppipe.audit.attacks.measures import (
    mean_squared_error,
    peak_signal_to_noise,
    structural_similarity,
)

if TYPE_CHECKING:
    from dppipe.audit.attacks.progress import Progress

Method = Literal["exact", "distance", "cosine"]
METHODS: tuple[Method, ...] = ("exact", "distance", "cosine")
SEEN: dict[str, str] = {
    "raw": "raw gradient",
    "clipped": "clipped",
    "noised": "clipped, noised",
    "release": "the run's release",
    "twin": "no privacy, batch",
}
"""What an attacker may see, by what a table calls it."""


@dataclass(frozen=True)
class Outcome:
    """How close one attack came."""

    found: Recovered
    mse: float
    psnr: float | None
    """In decibels, for images."""
    ssim: float | None
    """For images."""
    target_is_right: bool | None
    """Whether the target was found; None where the attack doesn't look for one."""
    place: int
    """How many records are at least as near to what was found, of the victim's and the decoys: 1
    where the attack tells the victim's from all others."""


@dataclass(frozen=True)
class Trial:
    """What all attacks found."""

    outcomes: Mapping[str, Mapping[Method, Outcome | None]]
    """By what was seen, then by method; None where a method can't be used."""
    mean_mse: float
    """The error of the mean record."""
    clipped_norm: float
    noise_norm: float
    """The length of the noise that was added to one record's gradient."""
    values: int
    """How many numbers the gradient has."""
    candidates: int
    """How many records there are to choose from: the victim's and the decoys."""

    def best(self, seen: str) -> float | None:
        """Return the least error of all methods; None where none could be used."""
        errors = [outcome.mse for outcome in self.outcomes[seen].values() if outcome is not None]
        return min(errors) if errors else None

    def best_place(self, seen: str) -> int | None:
        """Return the victim's best place of all methods; None where none could be used."""
        places = [outcome.place for outcome in self.outcomes[seen].values() if outcome is not None]
        return min(places) if places else None


@dataclass(frozen=True)
class Searches:
    """The limits of the two searches."""

    distance: Search
    cosine: Search


def searches(*, steps: int | None, starts: int, seed: int, seconds: float) -> Searches:
    """Return the limits: so many steps from each start, and so many seconds in all."""
    ends = time.monotonic() + seconds
    distance = Search(steps=steps or 300, restarts=starts, seed=seed, ends=ends)
    return Searches(distance, replace(distance, steps=steps or 2000))


def run_trial(
    setting: Setting,
    methods: tuple[Method, ...],
    limits: Searches,
    *,
    seed: int,
    progress: Progress,
) -> Trial:
    """Attack everything that an attacker may see by each method."""
    seen = _what_is_seen(setting, seed=seed)
    ends = find_ends(setting.known, target=setting.victim[1])
    progress.begin(len(seen) * len(methods))
    outcomes: dict[str, dict[Method, Outcome | None]] = {}
    for name, gradient in seen.items():
        outcomes[name] = {}
        for method in methods:
            progress.next(f"{SEEN[name]}: {method}")
            found = _attack(setting.known, gradient, method, ends, limits)
            outcomes[name][method] = None if found is None else _judged(setting, found)
    record = setting.victim[0][0]
    clipped = flat(seen["clipped"])
    return Trial(
        outcomes,
        mean_squared_error(setting.mean_record, record),
        float(clipped.norm()),
        float((flat(seen["noised"]) - clipped).norm()),
        clipped.numel(),
        1 + len(setting.decoys),
    )


def _what_is_seen(setting: Setting, *, seed: int) -> dict[str, Gradient]:
    known = setting.known
    one = setting.victim
    return {
        "raw": raw_gradient(known, one),
        "clipped": clipped_gradient(known, one, setting.step),
        "noised": released_gradient(known, one, setting.step, seed=seed),
        "release": released_gradient(known, setting.batch, setting.step, seed=seed + 1),
        "twin": raw_gradient(known, setting.batch),
    }


def _attack(
    known: Knowledge, gradient: Gradient, method: Method, ends: Ends, limits: Searches
) -> Recovered | None:
    if method == "exact":
        return recover_exactly(known, gradient, ends)
    if method == "distance":
        return recover_by_distance(known, gradient, limits.distance)
    target = recover_target(known, gradient, ends)
    return recover_by_direction(known, gradient, limits.cosine, target=target)


def _judged(setting: Setting, found: Recovered) -> Outcome:
    known = setting.known
    inputs, targets = setting.victim
    mse = mean_squared_error(found.record, inputs[0])
    psnr = None
    ssim = None
    if known.is_image:
        span = known.box.span if known.box is not None else _span(inputs[0])
        psnr = peak_signal_to_noise(mse, span=span)
        ssim = structural_similarity(found.record, inputs[0], span=span)
    is_right = None
    if found.target is not None and known.task != "regression" and known.known_target is None:
        is_right = bool((found.target.flatten() == targets.flatten().to(found.target)).all())
    return Outcome(found, mse, psnr, ssim, is_right, _place(setting, found.record))


def _place(setting: Setting, found: Tensor) -> int:
    """Return the victim's place among the decoys, by the distance to what was found."""
    record = setting.victim[0][0]
    distance = (found - record).double().norm()
    others = (setting.decoys - found).double().flatten(1).norm(dim=1)
    return 1 + int((others <= distance).sum())


def _span(image: Tensor) -> float:
    return max(float(image.max() - image.min()), 1e-12)
