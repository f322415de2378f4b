"""Inferring an attribute of a record: an unknown column, from the others and the target.

Known are the record's other columns k and its target y. The guess is

    argmax over v of  ln prior(v) + ln p(y | k, v)          (Fredrikson et al. 2014, 2015).

Of a regression, p is normal around the prediction, with the spread of the model's own errors. A
guess by the prior alone stands beside it: what it reaches isn't the model's doing. Nor is what a
model knows about people in general; only the difference between members and others is about a
record.
"""

from __future__ import annotations

import torch
from torch import Tensor

from dppipe.audit.attacks.inversion.columns import Values
from dppipe.audit.attacks.predictor import Predictor, class_numbers
from dppipe.errors import UsageError


def guess_values(
    model: Predictor,
    inputs: Tensor,  # [n, d]
    targets: Tensor,  # [n, ...]
    values: Values,
    *,
    prior: Tensor,  # [values], logarithms
    spread: float | None = None,
) -> Tensor:  # -> [n]
    """Return the most probable value of the unknown column for each record.

    Args:
        model: The attacked model.
        inputs: The records; what stands in the unknown column isn't used.
        targets: What is known to be right for them.
        values: What the unknown column may hold.
        prior: How probable each value is, as a logarithm.
        spread: The standard deviation of a regression's errors.
    """
    scores = []
    for number, log_prior in enumerate(prior):
        changed = _with(inputs, values, number)
        scores.append(log_prior + _log_likelihood(model, changed, targets, spread))
    return torch.stack(scores, dim=1).argmax(1)


def spread_of_errors(model: Predictor, inputs: Tensor, targets: Tensor) -> float | None:
    """Return the standard deviation of a regression's errors; None for classes."""
    if model.classifies:
        return None
    errors = model.outputs(inputs).double().flatten() - targets.double().flatten()
    spread = float(errors.square().mean().sqrt())
    if not 0 < spread < torch.inf:
        raise UsageError(
            f"attack: expected a regression whose errors have a finite spread > 0, got {spread:g}. "
            "Nothing can be inferred from its predictions."
        )
    return spread


def _log_likelihood(
    model: Predictor, inputs: Tensor, targets: Tensor, spread: float | None
) -> Tensor:  # -> [n]
    if spread is None:
        logs = model.log_probabilities(inputs)
        return logs[torch.arange(len(inputs)), class_numbers(targets)]
    errors = (model.outputs(inputs).double() - targets.double().reshape(len(inputs), -1)) / spread
    return -errors.square().sum(1) / 2


def _with(inputs: Tensor, values: Values, number: int) -> Tensor:
    """Return the records with one value in the unknown column."""
    changed = inputs.clone()
    place = values.place
    changed[:, place.start : place.start + place.width] = values.encoded[number].to(changed)
    return changed
