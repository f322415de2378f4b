"""What an answer says about several equal releases at a delta."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dppipe.cli.mechanisms.asked import at_delta, number

if TYPE_CHECKING:
    from dppipe.privacy.budget import Relation


def together(
    event: Any, *, delta: float, relation: Relation, count: int = 1
) -> tuple[str, dict[str, Any]]:
    """Return the text and the data for so many releases, by the accountant with the least."""
    from dppipe.privacy.textbook.together import cost_together

    (found,) = cost_together(event, [count], delta=delta, relation=relation)
    text = f"{at_delta(found.epsilon, delta)} by accountant {found.accountant} (certified)"
    data = {
        "count": count,
        "epsilon": number(found.epsilon),
        "delta": delta,
        "accountant": found.accountant,
        "certified": True,
    }
    return text, data
