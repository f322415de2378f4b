"""How the engine treats each parameter of a model, as a value: for `dppipe doctor` and for tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from torch import Tensor

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
    """The form in which the gradients are held, such as `outer` or `dense`; `unused` where there are none."""
    kernel: str
    """The kernel that was chosen by cost, where there was a choice."""
    held: int
    """Floats held per row from the backward pass to the clipped sum."""


@dataclass(frozen=True)
class EngineReport:
    """How a model is treated."""

    parameters: tuple[ParameterReport, ...]
    row_by_row: dict[str, str]
    """Modules that are evaluated row by row with torch.func, each with the reason; the whole model stands as `model`."""

    @property
    def independence(self) -> Literal["checked", "by construction"]:
        """Why no row's gradient depends on another row.

        A model that is evaluated one row at a time can't mix rows; of any other it was checked by value on made-up rows.
        """
        return "by construction" if "model" in self.row_by_row else "checked"


def make_report(engine: Engine, batch: Any) -> EngineReport:
    """Run the engine once on made-up input and say what it did."""
    rows = batch_rows(batch)
    found = engine.gradients(batch)
    reports = []
    for name, parameter in engine.parameters.items():
        gradients = found.get(name)
        held = (
            sum(value.numel() for value in vars(gradients).values() if isinstance(value, Tensor))
            if gradients
            else 0
        )
        form = type(gradients).__name__.lower() if gradients else "unused"
        group = engine.groups.names[engine.groups.column[name]]
        reports.append(
            ParameterReport(
                name,
                parameter.numel(),
                group,
                form,
                engine.gradients.chosen.get(name, ""),
                held // max(1, rows),
            )
        )
    slow = {path or "model": reason for path, reason in engine.layout.fallback.items()}
    return EngineReport(
        tuple(reports), {"model": engine.layout.functional} if engine.layout.functional else slow
    )
