"""TensorBoard curves of a run, on the ledger's steps, with a layout that opens ready to read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from torch.utils.tensorboard import SummaryWriter

from dppipe.runs.directory import cannot_write

if TYPE_CHECKING:
    from dppipe.planning.step_plan import StepPlan

# Tags are regular expressions in TensorBoard's layouts: anchored, so that no other tag slips in.
_LAYOUT = {
    "Privacy": {
        "epsilon, spent and left": [
            "Multiline",
            ["privacy/epsilon$", "privacy/epsilon_remaining$"],
        ],
        "steps left": ["Multiline", ["privacy/steps_remaining$"]],
        "noise multiplier": ["Multiline", ["privacy/noise_multiplier$"]],
        "clipping bound": ["Multiline", ["privacy/max_grad_norm$"]],
        "sample rate": ["Multiline", ["privacy/sample_rate$"]],
    },
    "Utility": {
        "validation": ["Multiline", [".*val/.*"]],
        "learning rate": ["Multiline", ["public/lr$", "public/lr/.*"]],
    },
    "Clipping (not private)": {
        "gradient norms": ["Multiline", ["nonprivate/grad_norm_.*"]],
        "clipped fraction": ["Multiline", ["nonprivate/clipped_fraction$"]],
        "signal to noise": ["Multiline", ["nonprivate/signal_to_noise$"]],
    },
}


class Curves:
    """The scalars of one run; every x-axis counts the ledger's steps."""

    def __init__(self, directory: Path, *, plan: StepPlan) -> None:
        self._plan = plan
        self._directory = directory
        with self._naming_failures():
            self._writer = SummaryWriter(str(directory), flush_secs=5)
            self._writer.add_custom_scalars(_LAYOUT)

    def privacy(self, step: int, *, max_grad_norm: float, noise_multiplier: float) -> None:
        """Add what is spent and left after a step, and the step's bound and noise."""
        plan = self._plan
        epsilon = plan.epsilon_after(step)
        scalars = {
            "epsilon": epsilon,
            "epsilon_remaining": (plan.budget_epsilon or 0.0) - epsilon,
            "noise_multiplier": noise_multiplier,
            "max_grad_norm": max_grad_norm,
            "sample_rate": plan.batch(step).sample_rate,
            "steps_remaining": float(plan.steps - step),
        }
        self.metrics({f"privacy/{name}": value for name, value in scalars.items()}, step=step)

    def metrics(self, values: Mapping[str, float], *, step: int) -> None:
        """Add metrics under the names they already have."""
        with self._naming_failures():
            for name, value in values.items():
                self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        """Write out what is left."""
        with self._naming_failures():
            self._writer.close()

    @contextmanager
    def _naming_failures(self) -> Iterator[None]:
        """Name the curves in the error if the disk fails."""
        try:
            yield
        except OSError as error:
            raise cannot_write(self._directory / "events.out.tfevents.*", error) from error
