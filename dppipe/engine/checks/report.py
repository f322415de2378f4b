"""A report of how the engine treats each parameter of a model, for `dppipe doctor` and tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from torch import Tensor

from dppipe.engine.gradients.forms import Gradients
from dppipe.engine.losses import batch_rows

if TYPE_CHECKING:
    from dppipe.engine.engine import Engine


@dataclass(frozen=True)
class ParameterReport:
    """How one parameter's gradients are held."""

    name: str
    values: int
    group: str
    form: str
    """The form of the gradients, such as `outer` or `dense`; `unused` if there are none."""
    kernel: str
    """The kernel that was chosen by cost, where there was a choice."""
    held: int
    """Floats held per row from the backward pass to the clipped sum."""


@dataclass(frozen=True)
class EngineReport:
    """How a model is treated."""

    parameters: tuple[ParameterReport, ...]
    row_by_row: dict[str, str]
    """Modules that are evaluated row by row, each with the reason; `model` is the whole model."""

    @property
    def independence(self) -> Literal["checked", "by construction"]:
        """Why no row's gradient depends on another row.

        A model that is evaluated one row at a time can't mix rows. Any other was checked by value
        on made-up rows.
        """
        return "by construction" if "model" in self.row_by_row else "checked"


def make_report(engine: Engine, batch: Any) -> EngineReport:
    """Run the engine once on made-up input and report what it did."""
    rows = batch_rows(batch)
    found = engine.gradients(batch)
    reports = []
    for name, parameter in engine.parameters.items():
        gradients = found.get(name)
        report = ParameterReport(
            name=name,
            values=parameter.numel(),
            group=engine.groups.names[engine.groups.column[name]],
            form=type(gradients).__name__.lower() if gradients else "unused",
            kernel=engine.gradients.chosen.get(name, ""),
            held=_held(gradients) // max(1, rows),
        )
        reports.append(report)
    row_by_row = {path or "model": reason for path, reason in engine.layout.fallback.items()}
    if engine.layout.functional:
        row_by_row = {"model": engine.layout.functional}
    return EngineReport(tuple(reports), row_by_row)


def _held(gradients: Gradients | None) -> int:
    """Return the number of floats in the tensors that hold a parameter's gradients."""
    if gradients is None:
        return 0
    return sum(value.numel() for value in vars(gradients).values() if isinstance(value, Tensor))
