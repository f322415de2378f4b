"""TensorBoard curves of a run, on the ledger's steps, with a layout that opens ready to read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tensorboard.compat.proto.summary_pb2 import Summary
from torch.utils.tensorboard import SummaryWriter

from dppipe.runs.directory import cannot_write
from dppipe.runs.showing.privacy_facts import spent_facts, step_facts

if TYPE_CHECKING:
    from dppipe.planning.plan import Plan

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

    def __init__(self, directory: Path, *, plan: Plan) -> None:
        self._plan = plan
        self._directory = directory
        with self._naming_failures():
            self._writer = SummaryWriter(str(directory), flush_secs=5)
            self._writer.add_custom_scalars(_LAYOUT)
            self._events: Any = self._writer.file_writer

    def privacy(self, step: int, facts: Mapping[str, float]) -> None:
        """Add what is spent and left after a step, and the step's rate, bound and noise."""
        self.metrics(step_facts(self._plan, step, facts), step=step)

    def release(self, epsilon: float, *, at: int) -> None:
        """Add what is spent and left after a release that isn't a step."""
        self.metrics(spent_facts(self._plan, epsilon), step=at)

    def metrics(self, values: Mapping[str, float], *, step: int) -> None:
        """Add metrics under the names they already have, all of them in one event."""
        if not values:
            return
        scalars = [Summary.Value(tag=name, simple_value=value) for name, value in values.items()]
        with self._naming_failures():
            self._events.add_summary(Summary(value=scalars), step)

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


class NoCurves:
    """The curves of a run of which nothing may be seen: none."""

    def privacy(self, step: int, facts: Mapping[str, float]) -> None:
        """Do nothing."""

    def release(self, epsilon: float, *, at: int) -> None:
        """Do nothing."""

    def metrics(self, values: Mapping[str, float], *, step: int) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""
