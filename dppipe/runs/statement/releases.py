"""What a run released, by the files that it left."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dppipe.runs.statement.other_releases import released_phrases

if TYPE_CHECKING:
    from dppipe.runs.statement.statement import Statement


_STEPS = "The weights after every step, and so any checkpoint that was made of them."
_COUNTS = (
    "Noisy counts of gradients that were not clipped: the bound follows them, in the curve "
    "`privacy/max_grad_norm` and in the checkpoint."
)
_PRIVATE_CURVES = (
    "The curves under `privacy/` and `public/`, which follow from the spec and the above."
)
_PAGE = "The page `report.html`: it shows the above, and metrics that need no protection."


def released(statement: Statement) -> tuple[str, ...]:
    """Return what the claim is about: nothing for a run that failed."""
    if statement.failed:
        return ()
    private = statement.plan.private
    files = statement.files
    said = []
    if files.final_weights:
        said.append("The final weights, `checkpoints/final.ckpt`.")
    if files.checkpoint:
        said.append("The checkpoint to resume from, `checkpoints/last.ckpt`.")
    if private and statement.executed is not None:
        said.append(_STEPS)
    said += released_phrases(statement.plan, statement.other_releases)
    if statement.noisy_counts:
        said.append(_COUNTS)
    if files.curves:
        said.append(_PRIVATE_CURVES if private else "The curves, `events.out.tfevents.*`.")
    if files.report:
        said.append(_PAGE if private else "The page `report.html`.")
    return tuple(said)
