"""Which options ask about a single mechanism, and which of them go with which mechanism.

All that is wrong with a question is said at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import typer

from dppipe.errors import UsageError
from dppipe.spec.messages.suggestions import suggest_kind

Given = Mapping[str, Any]
"""The options that stand on the command line, by the names of their parameters."""

_SCHEDULE = ("sample_rate", "sampler", "records", "batch_size", "max_batch_size", "steps")
_SHOWING = ("plot", "as_json")


@dataclass(frozen=True)
class Takes:
    """The options of a mechanism."""

    one_of: tuple[str, ...]
    """Exactly one of them is given."""
    needs: tuple[str, ...] = ()
    may: tuple[str, ...] = ()

    @property
    def known(self) -> set[str]:
        """Return all options that the mechanism takes."""
        return {*self.one_of, *self.needs, *self.may, *_SHOWING}


_SELECTION = Takes(one_of=("epsilon",), may=("delta", "steps", "scores", "group"))
MECHANISMS = {
    "gaussian": Takes(
        one_of=("epsilon", "noise_multiplier"), needs=("delta",), may=("relation", "group")
    ),
    "laplace": Takes(one_of=("epsilon", "noise_multiplier"), may=("delta", "relation", "group")),
    "randomized_response": Takes(
        one_of=("epsilon", "truth_probability"),
        may=("buckets", "records", "delta", "steps", "relation", "group"),
    ),
    "exponential": _SELECTION,
    "permute_and_flip": _SELECTION,
    "epsilon_delta": Takes(one_of=("epsilon",), needs=("delta", "group")),
}
DISJOINT = Takes(one_of=("disjoint",), may=("delta", "relation"))
SELECT_BEST = Takes(
    one_of=("noise_multiplier",),
    needs=("delta",),
    may=("mechanism", "sample_rate", "steps", "relation", "repetitions", "shape"),
)
_WITH_SAMPLER = ("gaussian", "laplace")
_ONLY_SINGLE = {
    "truth_probability": "Take --mechanism randomized_response.",
    "buckets": "Take --mechanism randomized_response.",
    "scores": "Take --mechanism exponential or permute_and_flip.",
    "repetitions": "Add --select-best 10, the number of runs on average.",
    "shape": "Add --select-best 10, the number of runs on average.",
    "group": "Take a --mechanism without a sampler: epsilon_delta with the epsilon and delta that "
    "the steps cost, or gaussian or laplace.",
}


def given_options(context: typer.Context) -> dict[str, Any]:
    """Return the options that stand on the command line."""
    found: dict[str, Any] = {}
    for name, value in context.params.items():
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            found[name] = value
    return found


def is_single(given: Given) -> bool:
    """Whether a single mechanism is asked about: one is named, and no sampler or steps."""
    if "disjoint" in given or "select_best" in given:
        return True
    mechanism = given.get("mechanism")
    if mechanism is None or mechanism in MECHANISMS.keys() - set(_WITH_SAMPLER):
        return mechanism is not None
    return not any(name in given for name in _SCHEDULE)


def check_options(given: Given) -> list[str]:
    """Return what is wrong with the choice of options for a single mechanism."""
    mechanism = given.get("mechanism")
    if mechanism is not None and mechanism not in MECHANISMS:
        hint = suggest_kind(str(mechanism), MECHANISMS)
        raise UsageError(
            f"--mechanism: expected one of {', '.join(MECHANISMS)}, got {mechanism!r}.{hint}"
        )
    takes, asked, named = _question(given)
    problems: list[str] = []
    if named == "select_best" and mechanism not in (None, *_WITH_SAMPLER):
        either = " or ".join(_WITH_SAMPLER)
        problems.append(f"--mechanism: expected {either} with --select-best, got {mechanism}.")
    for name, value in given.items():
        if name not in takes.known and name != named:
            problems.append(
                f"{option(name)}: expected none with {asked}, got {value}.{_way_out(name, asked)}"
            )
    problems += _missing(given, takes, asked)
    return problems


def _question(given: Given) -> tuple[Takes, str, str]:
    """Return the options that go with a question, how it is asked, and by which parameter."""
    if "disjoint" in given:
        return DISJOINT, "--disjoint", "disjoint"
    if "select_best" in given:
        return SELECT_BEST, "--select-best", "select_best"
    mechanism = str(given["mechanism"])
    return MECHANISMS[mechanism], f"--mechanism {mechanism}", "mechanism"


def refuse_single_options(given: Given) -> None:
    """Refuse options of single mechanisms where steps are asked about."""
    problems: list[str] = []
    for name, way_out in _ONLY_SINGLE.items():
        if name in given:
            problems.append(
                f"{option(name)}: expected none without a single mechanism, "
                f"got {given[name]}. {way_out}"
            )
    if problems:
        raise UsageError("\n".join(problems))


def option(name: str) -> str:
    """Return how an option is written on the command line."""
    return f"--{name.replace('_', '-')}"


def _missing(given: Given, takes: Takes, asked: str) -> list[str]:
    problems: list[str] = []
    chosen = [option(name) for name in takes.one_of if name in given]
    if len(chosen) != 1:
        either = " or ".join(map(option, takes.one_of))
        got = " and ".join(chosen) or "none"
        problems.append(f"account: expected {either} with {asked}, got {got}. Give one of them.")
    for name in takes.needs:
        if name not in given:
            example = {"delta": "1e-5", "group": "3"}[name]
            problems.append(
                f"{option(name)}: expected a number with {asked}, got none. "
                f"Add {option(name)} {example}."
            )
    if "steps" in given and "steps" in takes.known and "delta" not in given:
        problems.append(
            "--delta: expected a number with --steps, got none. Add --delta 1e-5, at which "
            "several cost less than their sum."
        )
    return problems


def _way_out(name: str, asked: str) -> str:
    if name in ("accountant", "curve", "second_opinion") and asked.endswith(_WITH_SAMPLER):
        return " Add --sample-rate 1 --steps 1, or leave it out."
    if name == "relation":
        return " The scores' sensitivity is that of the relation; leave it out."
    if name == "mechanism":
        return " Each part is known by its epsilon; leave it out."
    return " Leave it out."
