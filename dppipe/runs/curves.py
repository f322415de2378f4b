"""TensorBoard curves of a run, on the ledger's steps, with a dashboard that opens ready to read
(`showing/dashboard.py`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tensorboard.compat.proto.summary_pb2 import Summary
from torch.utils.tensorboard import SummaryWriter

from dppipe.runs.directory import cannot_write
from dppipe.runs.showing.dashboard import (
    EPSILON_SCALE,
    FOLDER,
    layout,
    statement_text,
    table_of,
    write_lines,
)
from dppipe.runs.showing.privacy_facts import spent_facts, step_facts

if TYPE_CHECKING:
    from dppipe.planning.plan import Plan


class Curves:
    """The scalars of one run; every x-axis counts the ledger's steps."""

    def __init__(self, directory: Path, *, plan: Plan) -> None:
        self._plan = plan
        self._directory = directory
        self._by_epsilon: SummaryWriter | None = None
        with self._naming_failures():
            self._writer = SummaryWriter(str(directory), flush_secs=5)
            self._writer.add_custom_scalars(layout(plan))
            write_lines(directory, plan)
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

    def validation(self, values: Mapping[str, float], *, step: int) -> None:
        """Add validation metrics; those of a public holdout against epsilon, too."""
        self.metrics(values, step=step)
        public = {}
        for name, value in values.items():
            if name.startswith("val/"):
                public[name.replace("val/", "by_epsilon/", 1)] = value
        if not public or not self._plan.private or self._plan.schedule == "filter":
            return
        with self._naming_failures():
            if self._by_epsilon is None:
                folder = self._directory / FOLDER / "by_epsilon"
                self._by_epsilon = SummaryWriter(str(folder), flush_secs=5)
            place = round(EPSILON_SCALE * self._plan.epsilon_after(step))
            scalars = [
                Summary.Value(tag=name, simple_value=found) for name, found in public.items()
            ]
            events: Any = self._by_epsilon.file_writer
            events.add_summary(Summary(value=scalars), place)

    def ending(self, metrics: Mapping[str, float], *, statement: str) -> None:
        """Add the run's entry in the table of settings, and its statement."""
        with self._naming_failures():
            for summary in (*table_of(self._plan, metrics), statement_text(statement)):
                self._events.add_summary(summary)

    def close(self) -> None:
        """Write out what is left."""
        with self._naming_failures():
            self._writer.close()
            if self._by_epsilon is not None:
                self._by_epsilon.close()

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

    def validation(self, values: Mapping[str, float], *, step: int) -> None:
        """Do nothing."""

    def ending(self, metrics: Mapping[str, float], *, statement: str) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""
