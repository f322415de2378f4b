"""The clipped sum of per-sample gradients, in one forward and one backward pass.

A clipped sum needs each row's gradient norm and one weighted sum, never the gradients themselves. In the forward pass the tape
notes each use of a weight; in the backward pass each use receives its output's gradient, which together with its input holds the
gradient of every row; norms come from that form, the clipper's factors from the norms, and the clipped sum from one weighted
contraction of the same form (book-keeping: Bu et al. 2023). `accumulate` is the whole algorithm. Read next: `bounds.py`, then
`tape.py`, `gradients.py` and one rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Literal, Self

import torch
from torch import Tensor, nn

from dppipe.engine.bounds import bounded_factors
from dppipe.engine.contracts import ClippedSum, Clips, Factors, PerSampleLoss
from dppipe.engine.coordinates import transformed
from dppipe.engine.fallback import row_by_row
from dppipe.engine.functional import FunctionalGradients
from dppipe.engine.gradients import Dense, Gradients
from dppipe.engine.groups import bounds_tensor, make_groups, trainable
from dppipe.engine.losses import SingletonLoss, batch_rows, take_rows
from dppipe.engine.norms import row_sizes
from dppipe.engine.plan import Plan, make_plan
from dppipe.engine.projections import Projections
from dppipe.engine.refusals import refuse_changed_state, refuse_mixing_layers
from dppipe.engine.rules.base import Unhandled
from dppipe.engine.tape import Tape
from dppipe.engine.units import Units, make_units
from dppipe.engine.weights import Weights
from dppipe.errors import PrivacyRefusal, UsageError

Mode = Literal["auto", "functional"]
REPLANS = 20
"""How often a model may show a new use of its parameters before it is refused."""


class Engine:
    """Clipped sums of one model, loss and clipper, for as long as a fit lasts.

    Guarantee: the sum over any disjoint pieces of a logical batch is the sum of one gradient per example (or per unit), each of
    norm at most its group's bound in every group; nothing else of the batch reaches the buffers.
    """

    def __init__(
        self,
        model: nn.Module,
        per_sample_loss: PerSampleLoss,
        clipper: Clips,
        *,
        mode: Mode = "auto",
        kernels: Mapping[str, str] | None = None,
        order: Literal[1, 2] = 2,
    ) -> None:
        self.model = model
        self.per_sample_loss = per_sample_loss
        self.clipper = clipper
        self.order = order
        """Which norm is bounded: Euclidean ones, or for Laplace noise sums of absolute values, of gradients that are formed."""
        self.needs = getattr(clipper, "needs", "norms")
        self.parameters = trainable(model)
        self.groups = make_groups(clipper, self.parameters)
        self.kernels = dict(kernels or {})
        self.plan = Plan(functional="asked for") if mode == "functional" or isinstance(per_sample_loss, SingletonLoss) else None
        self._functional = FunctionalGradients(model, per_sample_loss)
        self.chosen: dict[str, str] = {}
        """The kernel of each parameter's last use, where there was a choice."""
        self._tape: Tape | None = None
        self._patches = ExitStack()
        self._ready = False
        self._replans = 0

    def __enter__(self) -> Self:
        """Start a fit."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """End a fit: whatever was put on the user's module is taken off."""
        self._patches.close()
        self._ready = False

    def bounds(self, state: Mapping[str, Any] | None = None) -> Tensor:  # -> [G]
        """Give the clipper's bounds in this state as a tensor on the model's device."""
        return bounds_tensor(self.clipper, self.groups, state, next(iter(self.parameters.values()), torch.zeros(())))

    def zeros(self) -> dict[str, Tensor]:
        """Give an empty sum for every trainable parameter, float32 or wider."""
        return {
            name: torch.zeros(p.shape, dtype=torch.promote_types(p.dtype, torch.float32), device=p.device)
            for name, p in self.parameters.items()
        }

    def accumulate(
        self,
        batch: Any,
        into: Mapping[str, Tensor],
        *,
        bounds: Tensor,  # [G]
        mask: Tensor | None = None,  # [B] of bool
        units: Tensor | Sequence[int] | None = None,  # [B] of int
        clipper: Factors | None = None,
    ) -> Tensor:  # -> [B, G]
        """Add the batch's clipped sums onto `into` and give each row's norms; masked rows count for nothing.

        `clipper` is the engine's own as it stands at this step, where that makes a difference (`Clipper.at`).
        """
        clipper, rows = clipper or self.clipper, batch_rows(batch)
        if not rows or not self.parameters:
            return bounds.new_zeros(rows, len(self.groups.names))
        layout = None if units is None else make_units(units, mask, like=bounds)

        if self.needs == "projections":
            projections = Projections(self.model, self.per_sample_loss, self.clipper)
            norms = projections.accumulate(self.parameters, batch, into, clipper, bounds=bounds, mask=mask, units=layout)
            return row_norms(norms, mask, layout)

        gradients = self.gradients(batch, rows, layout)
        if self.needs == "gradients":
            gradients = transformed(clipper, gradients, self.parameters)

        with torch.no_grad():
            found_rows = layout.count if layout else rows
            if self.order == 1:
                sizes = {name: row_sizes(found.dense()) for name, found in gradients.items()}
                norms = self.groups.totals(sizes, found_rows, like=bounds)
            else:
                norms = self.groups.norms({name: found.squares for name, found in gradients.items()}, found_rows, like=bounds)
            factors = bounded_factors(clipper, norms, bounds)
            finite = norms.isfinite()
            if layout is None and mask is not None:
                factors = factors * mask[:, None]
            clean = bounds.device.type == "cpu" and bool(finite.all())  # Elsewhere asking would wait for the device.
            for name, found in gradients.items():
                column = self.groups.column[name]
                kept = found if clean else found.keep(finite[:, column])
                kept.add_to(into[name], factors[:, column])
            return row_norms(norms, mask, layout)

    def gradients(self, batch: Any, rows: int, units: Units | None) -> dict[str, Gradients]:
        """Give each parameter's gradients for every row, or every unit, in the form that is cheapest to hold."""
        self.prepare(batch)
        if self.plan is None or self.plan.functional is not None:
            dense = self._functional(self.parameters, batch)
            return {name: Dense(value if units is None else units.average(value)) for name, value in dense.items()}
        try:
            return self._taped(self.plan, batch, rows, units)
        except Unhandled:
            self._plan_again(batch)
            return self.gradients(batch, rows, units)

    def _taped(self, plan: Plan, batch: Any, rows: int, units: Units | None) -> dict[str, Gradients]:
        weights = Weights(self.model, self.parameters)
        self._tape = Tape(weights, rows=rows, axes=plan.axes, units=units, kernels=self.kernels)
        try:
            with torch.enable_grad(), self._tape:
                losses = self.per_sample_loss(self.model, batch)
                if losses.shape != (rows,):
                    raise UsageError(
                        f"per_sample_loss: expected one loss for each of {rows} rows, got shape {tuple(losses.shape)}."
                    )
                gradients = self._tape.backward(losses)
                self.chosen.update(self._tape.chosen)
                return gradients
        finally:
            self._tape = None

    def prepare(self, batch: Any) -> None:
        """Plan how to treat the model, from a batch's shapes and types; refuse what can't be private."""
        if self._ready:
            return
        refuse_mixing_layers(self.model)
        with refuse_changed_state(self.model):
            if self.plan is None:
                self.plan = make_plan(self.model, self.per_sample_loss, batch, parameters=self.parameters, trial=self._try)
            else:
                self.per_sample_loss(self.model, take_rows(batch, 0, 1))
        self._patches.enter_context(row_by_row(self.model, self.plan, lambda: self._tape))
        self._ready = True

    def _plan_again(self, batch: Any) -> None:
        """Add to the plan what the forward pass has not shown before."""
        self._replans += 1
        if self._replans > REPLANS:
            raise PrivacyRefusal(
                "model: expected a forward pass that uses its parameters in the same way in every step, got another way each "
                "time. Take out branches that depend on the data."
            )
        known, self._ready = self.plan, False
        self._patches.close()
        self.plan = make_plan(self.model, self.per_sample_loss, batch, parameters=self.parameters, trial=self._try, known=known)
        self.prepare(batch)

    def _try(self, plan: Plan, batch: Any) -> None:
        with row_by_row(self.model, plan, lambda: self._tape):
            self._taped(plan, batch, batch_rows(batch), None)


def row_norms(norms: Tensor, mask: Tensor | None, units: Units | None) -> Tensor:  # [B or U, G] -> [B, G]
    """Give each row its unit's norms, and masked rows 0."""
    norms = norms if units is None else norms[units.slots]
    return norms if mask is None else norms.where(mask[:, None], 0)


def clipped_sum(
    model: nn.Module,
    per_sample_loss: PerSampleLoss,
    batch: Any,
    clipper: Clips,
    *,
    mask: Tensor | None = None,
    units: Tensor | Sequence[int] | None = None,
    state: Mapping[str, Any] | None = None,
) -> ClippedSum:
    """Give the sum of the clipped per-sample gradients and the norms before clipping; `.grad` is untouched."""
    with Engine(model, per_sample_loss, clipper) as engine:
        sums = engine.zeros()
        norms = engine.accumulate(batch, sums, bounds=engine.bounds(state), mask=mask, units=units)
    return ClippedSum(sums, norms)
