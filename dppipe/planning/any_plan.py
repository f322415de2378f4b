"""The plan of any spec: of one run, or of a private search."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dppipe.planning.privacy_plan import make_plan

if TYPE_CHECKING:
    from dppipe.planning.plan import Plan
    from dppipe.spec.kinds.registry import Registry
    from dppipe.spec.spec import Spec


def make_any_plan(
    spec: Spec, *, registry: Registry | None = None, allow_estimate: bool = False
) -> Plan:
    """Commit to what a spec says: one run, or a search where it has a `tune` block.

    Args:
        spec: The spec.
        registry: Where the kinds of candidates are looked up, if plugins stand elsewhere.
        allow_estimate: Whether the accountant may only estimate; no run accepts such a plan.
    """
    if spec.tune is None:
        return make_plan(spec, allow_estimate=allow_estimate)
    from dppipe.planning.tuning.make_tune_plan import make_tune_plan

    return make_tune_plan(spec, registry=registry, allow_estimate=allow_estimate)
