"""What a run's statement says of the scope that the run is charged to."""

from __future__ import annotations

from dppipe.budgets.binding import Binding
from dppipe.errors import DppipeError


def scope_terms(binding: Binding) -> dict[str, float] | None:
    """Return a scope's limit and how much of it is held, this run's whole plan among it.

    None where the store can't be read just now: a run that has reserved isn't stopped for that.
    """
    try:
        status = binding.store.status(binding.entry.scope)
    except DppipeError:
        return None
    return {
        "epsilon": status.scope.epsilon,
        "delta": status.scope.delta,
        "runs": len(status.runs),
        "share": status.share,
    }
