"""What a run released, by the files that it left."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dppipe.planning.plan import Plan
    from dppipe.runs.statement.statement import Statement


_STEPS = "The weights after every step, and so any checkpoint that was made of them."
_COUNTS = (
    "Noisy counts of gradients that were not clipped: the bound follows them, in the curve "
    "`privacy/max_grad_norm` and in the checkpoint."
)
_PRIVATE_CURVES = (
    "The curves under `privacy/` and `public/`, which follow from the spec and the above."
)


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
    if files.statistics:
        said.append(_statistics(statement.plan))
    if statement.noisy_counts:
        said.append(_COUNTS)
    if files.curves:
        said.append(_PRIVATE_CURVES if private else "The curves, `events.out.tfevents.*`.")
    return tuple(said)


def _statistics(plan: Plan) -> str:
    named = plan.scaling_statistics or "statistics"
    if not plan.private:
        return f"The {named} that inputs were scaled by, without noise, `statistics.json`."
    noise = f"noise multiplier {plan.scaling_noise_multiplier:g}"
    return f"The noisy {named} that inputs were scaled by ({noise}), `statistics.json`."
