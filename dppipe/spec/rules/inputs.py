"""Rules about what goes into the model: features, and whether numbers or token ids suit it."""

from __future__ import annotations

from collections.abc import Iterator

from dppipe.errors import DppipeError, Problem, SpecError
from dppipe.input_layout import InputLayout
from dppipe.spec.spec import Spec


def features_fit(spec: Spec) -> Iterator[Problem]:
    """Features fit the inputs that they are computed from."""
    features = spec.data.feature_map
    if features is None:
        return
    try:
        shape = spec.data.input_shape
    except (DppipeError, OSError, ValueError):
        return  # other rules report what is wrong with the data
    for option, message in features.problems(shape):
        yield Problem(("data", "features", option), message)
    if spec.data.reads_one_by_one:
        yield Problem(
            ("data", "features"),
            "expected data in memory, got a class whose records are read one by one. Write a "
            "dppipe.Data class that loads a TensorDataset, or leave features out.",
        )


def _layout(spec: Spec) -> InputLayout | None:
    """Return the layout of the inputs; None where another rule reports what is wrong with them."""
    try:
        return spec.data.input_layout
    except (DppipeError, OSError, ValueError):
        return None


def model_takes_inputs(spec: Spec) -> Iterator[Problem]:
    """The model takes inputs of this kind."""
    layout = _layout(spec)
    if spec.trained_model is None or layout is None:
        return
    try:
        spec.trained_model.check_layout(layout)
    except SpecError as error:
        yield from error.problems


def learner_takes_inputs(spec: Spec) -> Iterator[Problem]:
    """Token ids are no numbers to compute with: the proofs of other learners don't cover them."""
    layout = _layout(spec)
    if layout is not None and layout.vocabulary is not None:
        yield Problem(
            ("data", "kind"),
            f"expected inputs that are numbers for learner {spec.learner.kind!r}, got "
            f"{layout.describe()}. Take learner: dp_sgd.",
        )
