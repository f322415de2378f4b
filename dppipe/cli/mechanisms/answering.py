"""From the options of a single mechanism to what `dppipe account` prints and draws."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from pathlib import Path

from dppipe.cli.mechanisms.asked import Asked, Single
from dppipe.cli.mechanisms.choosing import Given
from dppipe.cli.mechanisms.values import read_question
from dppipe.cli.plots.figures import new_figure, save_figure

_ANSWERS = {
    "gaussian": "gaussian:answer_gaussian",
    "laplace": "laplace:answer_laplace",
    "randomized_response": "randomized_response:answer_randomized_response",
    "exponential": "selection:answer_selection",
    "permute_and_flip": "selection:answer_selection",
    "epsilon_delta": "known:answer_known",
    "disjoint": "disjoint:answer_disjoint",
    "select_best": "best_of:answer_best_of",
}


def answer_single(given: Given, *, plot: Path | None, as_json: bool) -> str:
    """Answer a question about a single mechanism; draw its picture if one is asked for."""
    asked = read_question(given)
    kind = asked.mechanism if asked.select_best is None else "select_best"
    module, name = _ANSWERS[kind].split(":")
    answer: Callable[[Asked], Single] = getattr(
        importlib.import_module(f"dppipe.cli.mechanisms.{module}"), name
    )
    found = answer(asked)
    if plot is not None:
        figure = new_figure()
        found.draw(figure)
        save_figure(figure, plot)
    return json.dumps(found.data, indent=2) if as_json else found.text()
