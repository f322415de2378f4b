"""What a model answers on the attacked records, as membership scores need it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy
from scipy import special

from dppipe.audit.attacks.predictor import class_numbers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dppipe.audit.attacks.predictor import Predictor
    from dppipe.audit.attacks.records import Records

    Floats = NDArray[numpy.float64]


@dataclass(frozen=True)
class Answers:
    """A model's answers on some records."""

    losses: Floats  # [n]
    log_probabilities: Floats | None  # [n, classes]; None of a regression
    labels: NDArray[numpy.int64]  # [n]; zeros of a regression

    @property
    def classes(self) -> Floats:  # [n, classes]
        """The log-probabilities of a classifier."""
        if self.log_probabilities is None:
            raise ValueError("a regression has no probabilities")
        return self.log_probabilities

    @property
    def confidences(self) -> Floats:  # [n]
        """The logit of each true label's probability."""
        return logit_confidences(self.classes, self.labels)

    @property
    def probabilities(self) -> Floats:  # [n]
        """The probability of each true label."""
        of_labels = numpy.take_along_axis(self.classes, self.labels[:, None], axis=1)
        return numpy.asarray(numpy.exp(of_labels[:, 0]))


def ask(model: Predictor, records: Records) -> Answers:
    """Return what a model answers on these records."""
    losses = model.losses(records.inputs, records.targets).numpy()
    if not model.classifies:
        return Answers(losses, None, numpy.zeros(len(records), dtype=numpy.int64))
    log_probabilities = model.log_probabilities(records.inputs).numpy()
    return Answers(losses, log_probabilities, class_numbers(records.targets).numpy())


def logit_confidences(log_probabilities: Floats, labels: NDArray[numpy.int64]) -> Floats:
    """Return ln p - ln(1 - p) of each label's probability p (Carlini et al. 2022).

    1 - p is the sum of the other classes' probabilities: p itself may round to 1.

    Args:
        log_probabilities: `[n, classes]`
        labels: `[n]`
    """
    rows = numpy.arange(len(labels))
    others = log_probabilities.copy()
    others[rows, labels] = -numpy.inf
    return numpy.asarray(log_probabilities[rows, labels] - special.logsumexp(others, axis=1))
