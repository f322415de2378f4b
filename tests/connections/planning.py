"""Which combinations can be planned, and with which accountant: the first that certifies them."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from connections.kinds import Combination, spec_of
from connections.neighbours import neighbours
from redteam import staging

from dppipe.errors import DppipeError
from dppipe.planning.privacy_plan import make_plan
from dppipe.planning.step_plan import StepPlan
from dppipe.spec.spec import Spec

ACCOUNTANTS = ("rdp", "pld", "basic", "advanced")


class Planned(NamedTuple):
    """A combination that can be run."""

    spec: Spec
    plan: StepPlan


@cache
def planned(combination: Combination) -> Planned | None:
    """Return the spec and plan of a combination with the first accountant that certifies it, if one does."""
    staging.STAGE[:] = [neighbours(combination).first]
    for accountant in ACCOUNTANTS:
        try:
            spec = spec_of(combination, accountant)
            return Planned(spec, make_plan(spec))
        except DppipeError:
            continue
    return None
