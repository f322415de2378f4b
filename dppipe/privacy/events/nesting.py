"""What the rules of samplers' events share: they hold a mechanism's event inside."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from dppipe.errors import PrivacyRefusal
from dppipe.privacy.budget import Relation
from dppipe.privacy.events.base import Numbers, multiplier_of, rule_of
from dppipe.privacy.events.plain import plain_form
from dppipe.privacy.events.sequences import taken_apart

if TYPE_CHECKING:
    from dp_accounting import DpEvent

    from dppipe.privacy.profiles.sampling import Release


def is_canonical_noise(event: DpEvent) -> bool:
    """Whether this is a single mechanism of noise with plain numbers."""
    rule = rule_of(event)
    return rule.release is not None and rule.is_canonical is not None and rule.is_canonical(event)


def with_one_mechanism(event: Any) -> DpEvent:
    """Return a sampler's event with plain numbers and one mechanism inside.

    Several Gaussians on the same sample are folded into the one Gaussian that they are: their
    precisions add up (Dong, Roth and Su 2019).
    """
    import attr

    return plain_form(attr.evolve(event, event=_one_mechanism(event.event)))


def _one_mechanism(event: DpEvent) -> DpEvent:
    import dp_accounting

    parts = list(taken_apart(event))
    if len(parts) == 1 and parts[0][1] == 1:
        return parts[0][0]
    precisions: list[float] = []
    for part, times in parts:
        if isinstance(part, dp_accounting.GaussianDpEvent):
            precisions.append(times / part.noise_multiplier**2)
    if not parts or len(precisions) < len(parts):
        raise PrivacyRefusal(
            "event: expected one mechanism or several Gaussians on each sample. The rest can't be "
            "charged."
        )
    return dp_accounting.GaussianDpEvent(math.fsum(precisions) ** -0.5)


def inner_multiplier(event: Any) -> float | None:
    """Return the noise multiplier of the mechanism inside."""
    return multiplier_of(event.event)


def inner_numbers(event: Any, *sizes: int) -> Numbers | None:
    """Return the numbers of the noise inside, beside the sampler's own; None if it isn't noise."""
    rule = rule_of(event.event)
    if rule.release is None or rule.numbers is None:
        return None
    found = rule.numbers(event.event)
    if found is None:
        return None
    return found._replace(rest=(type(event).__name__, found.rest, *sizes))


def with_inner_noise(event: Any, numbers: Numbers) -> DpEvent:
    """Return a sampler's event whose noise inside is rounded."""
    import attr

    with_numbers = rule_of(event.event).with_numbers
    if with_numbers is None:
        raise PrivacyRefusal(f"event: expected noise inside a sample, got {event.event}.")
    made: DpEvent = attr.evolve(event, event=with_numbers(event.event, numbers))
    return made


def inner_release(event: Any) -> Release:
    """Return the noise inside, on one record's presence."""
    release = rule_of(event.event).release
    if release is None:
        raise PrivacyRefusal(f"event: expected noise inside a sample, got {event.event}.")
    return release(event.event, 1.0)


def inner_reach(event: Any, relation: Relation) -> float:
    """Return roughly the largest loss of the noise inside."""
    reach = rule_of(event.event).reach
    return math.inf if reach is None else reach(event.event, relation)


def inner_own_delta(event: Any) -> float | None:
    """Return the delta of the mechanism inside that can't be chosen; None where it can."""
    own_delta = rule_of(event.event).own_delta
    return None if own_delta is None else own_delta(event.event)
