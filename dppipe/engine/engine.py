"""The clipped sum of per-sample gradients, in one forward and one backward pass.

A clipped sum needs each row's gradient norm and one weighted sum, never the gradients themselves
(book-keeping: Bu et al. 2023).

- In the forward pass the tape notes each use of a weight.
- In the backward pass each use receives its output's gradient. Together with the input it
  determines the gradient of every row.
- Norms are computed from these two factors, the clipper's factors from the norms, and the clipped
  sum by one weighted contraction of the same two factors.

`accumulate` is the whole algorithm. Read next: `bounds.py`, then `tape/tape.py`,
`gradients/forms.py` and one rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, Self

import torch
from torch import Tensor, nn

from dppipe.engine.bounds import bounded_factors
from dppipe.engine.contracts import Clips, Factors, PerSampleLoss
from dppipe.engine.exact import exact
from dppipe.engine.gradients.coordinates import transformed
from dppipe.engine.gradients.forms import Dense, Gradients
from dppipe.engine.gradients.norms import row_sizes
from dppipe.engine.gradients.projections import Projections
from dppipe.engine.groups import bounds_tensor, make_groups, trainable
from dppipe.engine.losses import ONE_LOSS, SingletonLoss, batch_rows
from dppipe.engine.row_gradients import RowGradients
from dppipe.engine.tape.layout import Layout
from dppipe.engine.tape.lazy_layers import refuse_lazy_layers
from dppipe.engine.units import Ids, Units, make_units, row_norms
from dppipe.errors import RECORD_ERRORS, PartlyAdded, UsageError

Mode = Literal["auto", "functional"]


class Engine:
    """Clipped sums of one model, loss and clipper, for as long as a fit lasts.

    Guarantees:
    - The sum over the physical batches of a batch is the sum of one gradient per example (or per
      unit), each of norm at most its group's bound in every group.
    - Nothing else of the batch reaches the buffers.
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
        """Take the model as it is.

        Args:
            mode: `functional` evaluates every row on its own, whatever the model.
            kernels: The kernel that each named rule must use; other rules choose by cost.
            order: Which norm is bounded: 2 for the Euclidean norm, or 1 for the sum of absolute
                values, which Laplace noise needs.
        """
        refuse_lazy_layers(model)
        self.model = model
        self.per_sample_loss = per_sample_loss
        self.clipper = clipper
        self.order = order
        self.needs = getattr(clipper, "needs", "norms")
        self.parameters = trainable(model)
        self.groups = make_groups(clipper, self.parameters)
        reason = "asked for" if mode == "functional" else None
        if isinstance(per_sample_loss, SingletonLoss):
            reason = ONE_LOSS
        self.gradients = RowGradients(
            model, per_sample_loss, self.parameters, kernels=kernels or {}, functional=reason
        )

    def __enter__(self) -> Self:
        """Start a fit."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End a fit: restore the user's module."""
        self.gradients.close()

    @property
    def layout(self) -> Layout:
        """How the engine treats each use of a weight; complete after `prepare`."""
        return self.gradients.layout

    def prepare(self, batch: Any) -> None:
        """Find out how to treat the model, from a batch's shapes and types.

        Models that can't be private are refused.
        """
        self.gradients.prepare(batch)

    def bounds(self, state: Mapping[str, Any] | None = None) -> Tensor:  # -> [G]
        """Return the clipper's bounds in this state as a tensor on the model's device."""
        like = next(iter(self.parameters.values()), torch.zeros(()))
        return bounds_tensor(self.clipper, self.groups, state, like)

    def zeros(self) -> dict[str, Tensor]:
        """Return a sum of zeros for every trainable parameter, float32 or wider."""
        sums = {}
        for name, parameter in self.parameters.items():
            dtype = torch.promote_types(parameter.dtype, torch.float32)
            sums[name] = torch.zeros(parameter.shape, dtype=dtype, device=parameter.device)
        return sums

    def accumulate(
        self,
        batch: Any,
        into: Mapping[str, Tensor],
        *,
        bounds: Tensor,  # [G]
        mask: Tensor | None = None,  # [B] of bool
        units: Ids | None = None,
        clipper: Factors | None = None,
    ) -> Tensor:  # -> [B, G]
        """Add the batch's clipped sums to `into` and return each row's norms.

        Args:
            mask: The rows that count; all do if it is None.
            units: The unit of each row, if rows belong to units.
            clipper: The engine's own clipper at this step (`Clipper.at`), if that differs.
        """
        return self._accumulate(
            [batch], into, bounds=bounds, mask=mask, units=units, clipper=clipper
        )

    def accumulate_parts(
        self,
        parts: Sequence[Any],
        into: Mapping[str, Tensor],
        *,
        bounds: Tensor,  # [G]
        units: Ids | None = None,
        clipper: Factors | None = None,
    ) -> Tensor:  # -> [rows of all parts, G]
        """Do the same for a batch whose rows have several shapes: each part has rows of one shape.

        `units` names the unit of every row, part after part; a unit may have rows in several parts.
        After an error nothing is added, unless it is `PartlyAdded`.
        """
        return self._accumulate(parts, into, bounds=bounds, units=units, clipper=clipper)

    def gradients_of(
        self, parts: Sequence[Any], *, units: Units | None = None
    ) -> dict[str, Gradients]:
        """Return each used parameter's gradients for every row, or unit, of all parts together."""
        if len(parts) == 1:
            return self.gradients(parts[0], units=units)
        found = [self.gradients(part) for part in parts]
        rows = [batch_rows(part) for part in parts]
        together: dict[str, Gradients] = {}
        for name, parameter in self.parameters.items():
            if any(name in part for part in found):
                with exact(parameter.device):
                    values = _formed(name, parameter, found, rows)
                    together[name] = Dense(values if units is None else units.average(values))
        return together

    def _accumulate(
        self,
        parts: Sequence[Any],
        into: Mapping[str, Tensor],
        *,
        bounds: Tensor,
        mask: Tensor | None = None,
        units: Ids | None = None,
        clipper: Factors | None = None,
    ) -> Tensor:  # -> [B, G]
        clipper = clipper or self.clipper
        rows = sum(map(batch_rows, parts))
        if not rows or not self.parameters:
            return bounds.new_zeros(rows, len(self.groups.names))
        grouped = None if units is None else make_units(units, mask, like=bounds)
        if self.needs == "projections":
            norms = self._project(parts, into, clipper, bounds=bounds, mask=mask, units=grouped)
            return row_norms(norms, mask, grouped)

        gradients = self.gradients_of(parts, units=grouped)
        with exact(bounds.device):
            if self.needs == "gradients":
                gradients = transformed(clipper, gradients, self.parameters)
            elif self.order == 1:
                gradients = {name: Dense(found.dense()) for name, found in gradients.items()}
            norms = self._norms(gradients, grouped.count if grouped else rows, like=bounds)
            factors = bounded_factors(clipper, norms, bounds)
            if grouped is None and mask is not None:
                factors = factors * mask[:, None]
            try:
                self._add(gradients, into, factors, finite=norms.isfinite())
            except RECORD_ERRORS as error:
                name = type(error).__name__
                raise PartlyAdded(
                    f"engine: expected to add a batch to the sum, got {name} on the way."
                ) from error
            return row_norms(norms, mask, grouped)

    def _project(
        self,
        parts: Sequence[Any],
        into: Mapping[str, Tensor],
        clipper: Factors,
        *,
        bounds: Tensor,
        mask: Tensor | None,
        units: Units | None,
    ) -> Tensor:  # -> [B or U, 1]
        """Add the clipped sum by estimated norms and return the estimates."""
        if len(parts) > 1:
            raise UsageError(
                "clipping: expected records of one shape for each user, as jl forms no gradient, "
                "got several."
            )
        projections = Projections(self.model, self.per_sample_loss, self.clipper)
        # The forward pass is exact too: norms and sums come from its own backward passes.
        with exact(bounds.device):
            return projections.accumulate(
                self.parameters, parts[0], into, clipper, bounds=bounds, mask=mask, units=units
            )

    def _norms(
        self, gradients: Mapping[str, Gradients], rows: int, *, like: Tensor
    ) -> Tensor:  # -> [B, G]
        if self.order == 1:
            sizes = {name: row_sizes(found.dense()) for name, found in gradients.items()}
            return self.groups.totals(sizes, rows, like=like)
        squares = {name: found.squares for name, found in gradients.items()}
        return self.groups.norms(squares, rows, like=like)

    def _add(
        self,
        gradients: Mapping[str, Gradients],
        into: Mapping[str, Tensor],
        factors: Tensor,
        *,
        finite: Tensor,
    ) -> None:
        """Add each parameter's weighted sum.

        Rows that aren't finite are zeroed first, since 0 times infinity isn't 0.
        """
        # Only on a CPU: reading the answer from another device would wait for it.
        clean = factors.device.type == "cpu" and bool(finite.all())
        for name, found in gradients.items():
            column = self.groups.column[name]
            kept = found if clean else found.keep(finite[:, column])
            kept.add_to(into[name], factors[:, column])


def _formed(
    name: str, parameter: Tensor, found: Sequence[Mapping[str, Gradients]], rows: Sequence[int]
) -> Tensor:  # -> [rows of all parts, *shape]
    """Form one parameter's gradients in all parts; a part that doesn't use it has zeros."""
    formed = []
    for part, count in zip(found, rows, strict=True):
        if name in part:
            formed.append(part[name].dense().reshape(count, *parameter.shape))
        else:
            dtype = torch.promote_types(parameter.dtype, torch.float32)
            formed.append(parameter.new_zeros(count, *parameter.shape, dtype=dtype))
    return torch.cat(formed)
