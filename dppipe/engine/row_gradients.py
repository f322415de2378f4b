"""Each parameter's gradients for every row of a batch, in the form that is cheapest to hold.

The gradients come from one forward and one backward pass under the tape, by a layout that is made
once from shapes and types. A model without a layout is evaluated row by row with `torch.func`.
Models that can't be private are refused before the first row is evaluated.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn

from dppipe.engine.checks.refusals import refuse_changed_state, refuse_mixing_layers
from dppipe.engine.contracts import PerSampleLoss
from dppipe.engine.gradients.forms import Dense, Gradients
from dppipe.engine.losses import batch_rows, take_rows
from dppipe.engine.rules.base import Unhandled
from dppipe.engine.tape.fallback import row_by_row
from dppipe.engine.tape.functional import FunctionalGradients
from dppipe.engine.tape.layout import Layout, make_layout
from dppipe.engine.tape.tape import Tape
from dppipe.engine.tape.weights import Weights, constants_of
from dppipe.engine.units import Units
from dppipe.errors import UsageError

EXTENSIONS = 20
"""How often the layout may be extended by new uses of parameters; later ones go row by row."""


class RowGradients:
    """The gradients of one model's loss, row by row."""

    def __init__(
        self,
        model: nn.Module,
        per_sample_loss: PerSampleLoss,
        parameters: Mapping[str, Tensor],
        *,
        kernels: Mapping[str, str],
        functional: str | None = None,
    ) -> None:
        self.layout = Layout(functional=functional)
        self.chosen: dict[str, str] = {}
        """The kernel of each parameter's last use, where there was a choice."""
        self._model = model
        self._loss = per_sample_loss
        self._parameters = parameters
        self._kernels = kernels
        self._functional = FunctionalGradients(model, per_sample_loss)
        self._tape: Tape | None = None
        self._constants: dict[int, Tensor] = {}
        self._patches = ExitStack()
        self._prepared = False
        self._extensions = 0

    def __call__(self, batch: Any, *, units: Units | None = None) -> dict[str, Gradients]:
        """Return each used parameter's gradients for every row, or every unit."""
        self.prepare(batch)
        if self.layout.functional is not None:
            return self._row_by_row(batch, units)
        try:
            return self._by_tape(self.layout, batch, units)
        except Unhandled:
            if self._extensions >= EXTENSIONS:
                return self._row_by_row(batch, units)
            self._extend_layout(batch)
            return self(batch, units=units)

    def settle(self) -> None:
        """Keep the current way of evaluating rows: from now on they are private records."""
        self._functional.settled = True

    def _row_by_row(self, batch: Any, units: Units | None) -> dict[str, Gradients]:
        gradients: dict[str, Gradients] = {}
        for name, values in self._functional(self._parameters, batch).items():
            gradients[name] = Dense(values if units is None else units.average(values))
        return gradients

    def _by_tape(self, layout: Layout, batch: Any, units: Units | None) -> dict[str, Gradients]:
        rows = batch_rows(batch)
        weights = Weights(self._constants, self._parameters)
        self._tape = Tape(weights, rows=rows, axes=layout.axes, units=units, kernels=self._kernels)
        try:
            with torch.enable_grad(), self._tape:
                losses = self._loss(self._model, batch)
                if losses.shape != (rows,):
                    raise UsageError(
                        f"per_sample_loss: expected one loss for each of {rows} rows, "
                        f"got shape {tuple(losses.shape)}."
                    )
                gradients = self._tape.backward(losses)
            self.chosen.update(self._tape.chosen)
            return gradients
        finally:
            self._tape = None

    def prepare(self, batch: Any) -> None:
        """Find out how to treat the model, from a batch's shapes and types.

        Models that can't be private are refused.
        """
        if self._prepared:
            return
        refuse_mixing_layers(self._model)
        self._constants = constants_of(self._model)
        with refuse_changed_state(self._model):
            if self.layout.functional is None:
                self.layout = make_layout(
                    self._model,
                    self._loss,
                    batch,
                    parameters=self._parameters,
                    trial=self._try,
                    known=self.layout,
                )
            else:
                self._loss(self._model, take_rows(batch, 0, 1))
        patched = row_by_row(
            self._model,
            self.layout,
            lambda: self._tape,
            settled=lambda: self._functional.settled,
        )
        self._patches.enter_context(patched)
        self._prepared = True

    def close(self) -> None:
        """Restore the user's module."""
        self._patches.close()
        self._prepared = False

    def _extend_layout(self, batch: Any) -> None:
        """Add uses to the layout that earlier forward passes didn't have."""
        self._extensions += 1
        self.close()
        self.prepare(batch)

    def _try(self, layout: Layout, batch: Any) -> None:
        with row_by_row(self._model, layout, lambda: self._tape):
            self._by_tape(layout, batch, None)
