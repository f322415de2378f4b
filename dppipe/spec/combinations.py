"""Parts that don't go together for privacy's sake, however each is set: said at validation, and
again by whoever plans.

The pairs of sampler, relation and accountant stand in `dppipe.privacy.support`; here is the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from dppipe.clipper_abilities import Averages, adapts, failure_delta, refusal, statistics_std
from dppipe.spec.messages.layout import Refusal

if TYPE_CHECKING:
    from dppipe.clipping.base import Clipper
    from dppipe.noise.base import NoiseSchedule
    from dppipe.privacy.budget import Budget
    from dppipe.privacy.release import Prelude
    from dppipe.sampling.base import Sampler


def refuse_together(
    sampler: Sampler,
    clipping: Clipper,
    noise: NoiseSchedule,
    *,
    budget: Budget,
    preludes: Sequence[Prelude],
) -> Iterator[Refusal]:
    """Yield each combination of these parts that no proof covers, with the option to change."""
    yield from _units(sampler, clipping, budget)
    yield from _bound(clipping, noise, budget)
    counts = statistics_std(clipping, expected_batch_size=1.0) is not None
    if clipping.bound_schedule is not None and (clipping.needs != "norms" or counts):
        message = (
            f"expected a clipper with a fixed bound, got {clipping.kind!r}, which moves its own "
            "or has none."
        )
        yield Refusal(
            ("clipping", "bound_schedule"), f"{message} Leave the schedule out, or take kind: flat."
        )
    by_norms = clipping.needs == "norms" and not isinstance(clipping, Averages)
    if noise.mechanism == "laplace" and (counts or not by_norms):
        message = (
            f"expected a clipper by norms alone with Laplace noise, got {clipping.kind!r}, "
            "whose bound is proven for"
        )
        yield Refusal(
            ("clipping", "kind"),
            f"{message} Gaussian noise. Take kind: flat, or mechanism: gaussian.",
        )
    if noise.mechanism == "laplace" and (noise.secure or noise.adaptive):
        what = "noise.secure" if noise.secure else f"the schedule {noise.kind!r}"
        yield Refusal(
            ("noise", "mechanism"),
            f"expected gaussian with {what}, got laplace, for which it isn't proven.",
        )
    for prelude in preludes:
        yield from refuse_prelude(prelude, budget)
        if noise.adaptive:
            yield _follows_releases(prelude)
    if noise.block > 1:
        yield from _correlated(sampler, clipping, noise)


def _correlated(sampler: Sampler, clipping: Clipper, noise: NoiseSchedule) -> Iterator[Refusal]:
    """Correlated noise is proven for steps of which each unit's place is known in advance, with one
    bound, and with Gaussian noise of one size in a block.
    """
    if not type(noise).__module__.startswith("dppipe.noise."):
        message = (
            "expected independent noise from a plugin, got a block of correlated steps, which "
            "claims a proof that can't be checked"
        )
        yield Refusal(("noise", "kind"), f"{message}. Leave block out.")
    needed = noise.needs_separation or 1
    if sampler.separation is None or sampler.separation < needed or sampler.epochwise:
        message = (
            f"expected a sampler that uses a unit every {needed} steps or less often, as the proof "
            f"of {noise.kind!r} needs, got {sampler.kind!r}, which draws each step anew."
        )
        yield Refusal(("sampler", "kind"), f"{message} Take full_batch, or independent noise.")
    moving = {
        ("sampler", "batch_schedule"): sampler.scheduled,
        ("clipping", "bound_schedule"): clipping.bound_schedule is not None,
        ("clipping", "kind"): adapts(clipping) or isinstance(clipping, Averages),
        ("noise", "mechanism"): noise.mechanism != "gaussian",
        ("noise", "secure"): noise.secure,
        ("noise", "kind"): noise.adaptive,
    }
    for place, is_set in moving.items():
        if is_set:
            message = (
                f"expected nothing that the proof of {noise.kind!r} doesn't cover: its noise is "
                "correlated over a block of steps"
            )
            yield Refusal(place, f"{message}. Leave it out, or take independent noise.")


def refuse_prelude(prelude: Prelude, budget: Budget) -> Iterator[Refusal]:
    """Yield why something can't be released before the learner's own releases."""
    if prelude.needs_count and budget.relation == "add_remove":
        message = (
            "expected nothing that is divided by the number of records under add_remove, which "
            "hides it, got a release that is."
        )
        yield Refusal(_place(prelude), f"{message} {prelude.instead}, or take relation: zero_out.")


def _follows_releases(prelude: Prelude) -> Refusal:
    """A release before the first step needs a plan, which noise that follows releases hasn't."""
    message = (
        "expected no release before the first step with noise that follows released values, got "
        "one."
    )
    instead = f"{prelude.instead}, or take a schedule that is fixed in advance."
    return Refusal(_place(prelude), f"{message} {instead}")


def _place(prelude: Prelude) -> tuple[str, ...]:
    return tuple(prelude.place.split("."))


def _units(sampler: Sampler, clipping: Clipper, budget: Budget) -> Iterator[Refusal]:
    """Users are the unit where users are drawn, and nowhere else: only there does a user count for
    one bound.
    """
    if budget.unit == "user" and not sampler.needs_users:
        message = (
            f"expected sampler: user, got {sampler.kind!r}, which bounds a record's part, not a "
            "user's."
        )
        yield Refusal(("budget", "unit"), f"{message} Take sampler: user, or unit: example.")
    if sampler.needs_users and isinstance(clipping, Averages):
        message = (
            f"expected a clipper of single units, got {clipping.kind!r}, which averages records "
            "of several."
        )
        yield Refusal(("clipping", "kind"), f"{message} Take kind: flat.")


def _bound(clipping: Clipper, noise: NoiseSchedule, budget: Budget) -> Iterator[Refusal]:
    """The clipper's bound holds under the relation, and what may fail of it is paid for with a part
    of delta.
    """
    why = refusal(clipping, budget.relation)
    if why is not None:
        yield Refusal(("clipping", "kind"), f"{why}.")
        return
    reserved = failure_delta(clipping, uses=0)
    if reserved >= budget.delta:
        message = (
            f"expected less than budget.delta = {budget.delta:g}, of which it is a part, got "
            f"{reserved:g}."
        )
        yield Refusal(("clipping", "delta"), f"{message} Lower it.")
    taken = {
        f"the schedule {noise.kind!r}, whose filter has all of delta": noise.adaptive,
        "a shared budget": bool(budget.scope),
    }
    for what in (name for name, has_all in taken.items() if has_all and reserved):
        message = (
            f"expected a bound that can't fail with {what}, got {clipping.kind!r}. Take kind: flat."
        )
        yield Refusal(("clipping", "kind"), message)
