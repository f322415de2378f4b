"""What `--second-opinion` prints: both epsilons, each with what is known of its error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dppipe.cli.printing.wrapping import table, wrapped
from dppipe.privacy.printing import shown
from dppipe.privacy.rounding import round_up

if TYPE_CHECKING:
    from dppipe.privacy.second_opinion import SecondOpinion

CONTRADICTION = 4
"""The exit code of a command whose check found a contradiction."""
_ABOVE = (
    "CONTRADICTION: the second opinion lies above ours by more than its error. Don't rely on this "
    "epsilon, and report it with the command that you ran."
)


def opinion_text(opinion: SecondOpinion, *, ours: float, certified: bool) -> str:
    """Lay out our epsilon and the second opinion on it."""
    mark = "an upper bound, never below the truth" if certified else "an ESTIMATE"
    if opinion.epsilon is None or opinion.error is None:
        theirs = f"none: {opinion.why}"
    else:
        error = f"{round_up(opinion.error, 2):g}"
        theirs = (
            f"epsilon {shown(opinion.epsilon)} by dp_accounting's PLD, at most {error} above the "
            "truth"
        )
    lines = table({"dppipe": f"epsilon {shown(ours)}, {mark}", "second opinion": theirs})
    if certified and opinion.contradicts(ours):
        return f"{lines}\n{wrapped(_ABOVE)}"
    return lines
