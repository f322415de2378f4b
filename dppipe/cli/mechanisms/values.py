"""The numbers of a question about a single mechanism: read, and checked all at once."""

from __future__ import annotations

import math
from typing import Any

from dppipe.cli.mechanisms.asked import Asked
from dppipe.cli.mechanisms.choosing import Given, check_options, option
from dppipe.errors import UsageError
from dppipe.privacy.textbook.randomized_answers import LARGEST_EPSILON
from dppipe.spec.messages.suggestions import suggest_kind

MOST_LISTED = 50
MOST_BUCKETS = 1_000_000
MOST_RELEASES = 10_000
LARGEST_GROUP = 1000
_RANGES = {
    "epsilon": (1e-6, 1e3),
    "noise_multiplier": (1e-3, 1e6),
    "delta": (1e-100, 0.999999),
    "buckets": (2, MOST_BUCKETS),
    "records": (1, 10**12),
    "steps": (1, MOST_RELEASES),
    "group": (1, LARGEST_GROUP),
    "sample_rate": (1e-9, 1.0),
    "select_best": (1.000001, 10_000),
    "shape": (0.0, 100.0),
}
"""Where every number of an answer keeps its digits."""
_WHOLE = ("buckets", "records", "steps", "group")
_LISTS = {"scores": (-1e6, 1e6), "disjoint": (1e-6, 1e3)}
_RELATIONS = {"randomized_response": ("replace_one", "zero_out")}
_REPETITIONS = ("truncated_negative_binomial", "poisson")
_EVERY = ("zero_out", "add_remove", "replace_one")


def read_question(given: Given) -> Asked:
    """Return the question that the options ask; raise all that is wrong with it at once."""
    problems = check_options(given)
    mechanism = "disjoint" if "disjoint" in given else str(given.get("mechanism", "gaussian"))
    values: dict[str, Any] = {"mechanism": mechanism}
    for name, value in given.items():
        if name in _RANGES:
            values[name] = _number(name, value, problems)
        elif name in _LISTS:
            field = "parts" if name == "disjoint" else name
            values[field] = _numbers(name, value, problems)
    if "relation" in given:
        values["relation"] = given["relation"]
        _check_relation(mechanism, given["relation"], problems)
    if "repetitions" in given:
        values["repetitions"] = given["repetitions"]
        _check_repetitions(given, problems)
    if mechanism == "randomized_response":
        _check_answers(given, problems)
        values["truth_probability"] = given.get("truth_probability")
    if problems:
        raise UsageError("\n".join(problems))
    return Asked(**values)


def _number(name: str, value: Any, problems: list[str]) -> float:
    if name == "delta":
        text = ", ".join(value)
        try:
            number = float(text)
        except ValueError:
            problems.append(f"--delta: expected one number, got {text!r}.")
            return 0.5
    else:
        number = value
    low, high = _RANGES[name]
    if not low <= number <= high:
        kind = "a whole number" if name in _WHOLE else "a number"
        problems.append(
            f"{option(name)}: expected {kind} from {low:g} to {high:g}, got {number:g}."
        )
    return number


def _numbers(name: str, text: str, problems: list[str]) -> tuple[float, ...]:
    try:
        numbers = tuple(map(float, text.split(",")))
    except ValueError:
        problems.append(
            f"{option(name)}: expected numbers, separated by commas, got {text!r}. "
            f"Write {option(name)} 0.5,1,2."
        )
        return ()
    low, high = _LISTS[name]
    wrong = [number for number in numbers if not low <= number <= high]
    if wrong:
        problems.append(
            f"{option(name)}: expected numbers from {low:g} to {high:g}, got {wrong[0]:g}."
        )
    if len(numbers) > MOST_LISTED:
        problems.append(
            f"{option(name)}: expected at most {MOST_LISTED} numbers, got {len(numbers)}."
        )
    return numbers


def _check_relation(mechanism: str, relation: str, problems: list[str]) -> None:
    known = _RELATIONS.get(mechanism, _EVERY)
    if relation in known:
        return
    why = ""
    if relation in _EVERY:
        why = " Under add_remove the number of answers would show whether a record is there."
    problems.append(f"--relation: expected {' or '.join(known)}, got {relation!r}.{why}")


def _check_repetitions(given: Given, problems: list[str]) -> None:
    kind = given["repetitions"]
    if kind not in _REPETITIONS:
        hint = suggest_kind(str(kind), _REPETITIONS)
        problems.append(
            f"--repetitions: expected one of {', '.join(_REPETITIONS)}, got {kind!r}.{hint}"
        )
    if kind == "poisson" and "shape" in given:
        problems.append(
            f"--shape: expected none with --repetitions poisson, got {given['shape']:g}. Leave it "
            "out."
        )


def _check_answers(given: Given, problems: list[str]) -> None:
    """Check what randomised response needs beside ranges."""
    truth = given.get("truth_probability")
    least = 1 / max(given.get("buckets", 2), 2)
    if truth is not None and not (least * (1 + 1e-9) < truth <= 1 - 1e-13 and math.isfinite(truth)):
        problems.append(
            f"--truth-probability: expected a number above {least:g}, where answers tell nothing, "
            f"and below 1, where they tell all, got {truth:g}."
        )
    epsilon = given.get("epsilon")
    if epsilon is not None and epsilon > LARGEST_EPSILON:
        problems.append(
            f"--epsilon: expected at most {LARGEST_EPSILON:g} with randomized_response, "
            f"got {epsilon:g}. More would be the plain truth."
        )
