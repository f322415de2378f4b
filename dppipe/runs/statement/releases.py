"""What a run released, by the files that it left."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dppipe.runs.statement.statement import Statement


def released(statement: Statement) -> tuple[str, ...]:
    """Return what the claim is about: nothing for a run that failed."""
    if statement.failed:
        return ()
    files = statement.files
    said = []
    if files.final_weights:
        said.append("The final weights, `checkpoints/final.ckpt`.")
    if files.checkpoint:
        said.append("The checkpoint to resume from, `checkpoints/last.ckpt`.")
    if statement.private and statement.executed is not None:
        said.append("The weights after every step, and so any checkpoint that was made of them.")
    if files.statistics:
        said.append(_statistics(statement))
    if statement.noisy_counts:
        said.append(
            "Noisy counts of gradients that were not clipped: the bound follows them, in the curve "
            "`privacy/max_grad_norm` and in the checkpoint."
        )
    if files.curves and not statement.private:
        said.append("The curves, `events.out.tfevents.*`.")
    if files.curves and statement.private:
        said.append(
            "The curves under `privacy/` and `public/`, which follow from the spec and the above."
        )
    return tuple(said)


def _statistics(statement: Statement) -> str:
    named = statement.scaling_statistics or "statistics"
    if not statement.private:
        return f"The {named} that inputs were scaled by, without noise, `statistics.json`."
    noise = f"noise multiplier {statement.scaling_noise_multiplier:g}"
    return f"The noisy {named} that inputs were scaled by ({noise}), `statistics.json`."
