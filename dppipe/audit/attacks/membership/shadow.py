"""Shadow: a classifier learns what models answer on records they have seen (Shokri et al. 2017).

It sees the sorted log-probabilities and the loss, of shadow models whose members are known. A class
of many examples gets a classifier of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dppipe.audit.attacks.membership.answers import Answers

    Floats = NDArray[numpy.float64]

ENOUGH_OF_A_CLASS = 200
"""From this many examples on a class has a classifier of its own."""
_LEAST = -50.0
"""Log-probabilities below this all look alike."""


def features(answers: Answers) -> Floats:  # -> [n, classes + 1]
    """Return what the classifier sees of a model's answers."""
    in_order = -numpy.sort(-answers.classes, axis=1)
    return numpy.clip(numpy.column_stack([in_order, -answers.losses]), _LEAST, None)


def shadow_scores(
    answers: Answers, shadows: Sequence[Answers], inside: NDArray[numpy.bool_]
) -> Floats:  # -> [n]
    """Return the log-odds of membership by classifiers that were fitted to the shadows.

    Args:
        answers: Of the model under attack, on n records.
        shadows: Of each shadow, on the same records.
        inside: `[shadows, n]`: whether a shadow has seen a record.
    """
    seen = numpy.concatenate([features(one) for one in shadows])
    labels = numpy.concatenate([one.labels for one in shadows])
    truth = inside.ravel()
    asked = features(answers)
    scores = _fitted(seen, truth).decision_function(asked)
    for label in numpy.unique(labels):
        of_class = labels == label
        both = 0 < truth[of_class].sum() < of_class.sum()
        if of_class.sum() >= ENOUGH_OF_A_CLASS and both:
            mine = answers.labels == label
            if mine.any():
                own = _fitted(seen[of_class], truth[of_class])
                scores[mine] = own.decision_function(asked[mine])
    return numpy.asarray(scores)


def _fitted(seen: Floats, truth: NDArray[numpy.bool_]) -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(seen, truth)
