"""Validation errors in plain words: what was expected, what was got, and what to do."""

from __future__ import annotations

import re
from typing import Any, get_origin

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from dppipe.component import Component, Options
from dppipe.errors import Problem, UsageError
from dppipe.spec.component_field import ComponentOf, split_kind
from dppipe.spec.kinds.registry import Registry
from dppipe.spec.messages.describe import describe_field, fields_by_key, find_in_type, meant_block
from dppipe.spec.messages.suggestions import (
    suggest_key,
    suggest_kind,
    suggest_number,
    suggest_truth,
)
from dppipe.spec.spec import Spec
from dppipe.spec.yaml.document import MAX_FAULTS, Path
from dppipe.text_layout import shorten

_HINTS: dict[Path, str] = {
    ("budget",): "Give epsilon and delta, or say `budget: none` for a baseline without privacy.",
    ("budget", "delta"): "Choose it well below 1/records, such as 1e-5 for ten thousand records.",
    ("budget", "epsilon"): "Say the most that the run may cost; 1 to 8 is common.",
    ("name",): "It becomes a folder's name: letters, digits, `.`, `_` and `-` only.",
    ("sampler",): "Say how records are drawn, such as {kind: poisson, expected_batch_size: 256}.",
    ("train",): "Say how long the run lasts, such as {epochs: 20}.",
    ("version",): "Write `version: 1`.",
}
# What an error of this type expects where no field says it: an item of a list, a value of a block.
_BY_TYPE = {
    "bool": "true or false",
    "dict": "a block",
    "finite": "a finite number",
    "float": "a number",
    "int": "an integer",
    "list": "a list",
    "model": "a block",
    "none": "nothing",
    "string": "text",
    "tuple": "a list",
}
_BY_LIMIT = {
    "greater_than": "a number > {gt:g}",
    "greater_than_equal": "a number >= {ge:g}",
    "less_than": "a number < {lt:g}",
    "less_than_equal": "a number <= {le:g}",
    "multiple_of": "a multiple of {multiple_of:g}",
    "string_pattern_mismatch": "text that matches {pattern}",
    "string_too_long": "at most {max_length} characters",
    "string_too_short": "at least {min_length} characters",
    "too_long": "at most {max_length} items",
    "too_short": "at least {min_length} items",
}
_ONE_OF_SEVERAL = re.compile(r"(\b1 (?:item|character))s\b")
"""A limit of one, which is written as several."""


def explain(error: ValidationError, data: Any, *, registry: Registry) -> list[Problem]:
    """Return the problems behind a validation error of a spec's data."""
    # A default that is made from other fields isn't made where one of those is wrong: that one is
    # said.
    errors = []
    for details in error.errors(include_url=False):
        if details["type"] != "default_factory_not_called" and not _follows_from_items(details):
            errors.append(details)
    problems = [_problem(details, data, registry) for details in errors[:MAX_FAULTS]]
    if len(errors) > MAX_FAULTS:
        problems.append(
            Problem(
                (), f"expected fewer faults, got {len(errors) - MAX_FAULTS} more. Fix these first."
            )
        )
    return list(dict.fromkeys(problems))  # each member of a union says the same


def show_value(value: Any) -> str:
    """Return a value as a spec would write it, shortened."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (dict, list, tuple)):
        return "a block" if isinstance(value, dict) else "a list"
    shown = repr(value)
    return shorten(shown, 60)


def _follows_from_items(details: Any) -> bool:
    """Tell whether a list is called too short only because some of its items are wrong.

    Pydantic counts the items that are right; the wrong ones are reported by themselves.
    """
    value, context = details["input"], details.get("ctx", {})
    if details["type"] != "too_short" or not isinstance(value, list | tuple):
        return False
    return len(value) >= int(context.get("min_length", 0))


def _problem(details: Any, data: Any, registry: Registry) -> Problem:
    path = _path(details["loc"], data)
    error, context = details["type"], details.get("ctx", {})
    if "text" in context:
        return Problem(path, context["text"])
    if error in ("value_error", "assertion_error"):
        return Problem(path, str(context["error"]) or "expected another value.")
    block = _block_at(path[:-1], data, registry)
    if error == "extra_forbidden":
        return Problem(path, _unknown_key(str(path[-1]), block), at_key=True)
    field = fields_by_key(block).get(str(path[-1])) if block and path else None
    expected = _expected(details, field)
    if error == "missing":
        return Problem(path, f"expected {expected}, got nothing. {_HINTS.get(path, 'Add it.')}")
    value = details["input"]
    is_budget = path == ("budget",) and isinstance(value, str)
    hint = (
        _HINTS.get(path)
        if value is None or is_budget or error == "string_pattern_mismatch"
        else _hint(error, context, value)
    )
    got = str(len(value)) if error in ("too_short", "too_long") else show_value(value)
    return Problem(path, f"expected {expected}, got {got}.{' ' + hint if hint else ''}")


def _path(location: Path, data: Any) -> Path:
    """Return the keys of a location, without pydantic's names for the members of a union."""
    path: list[str | int] = []
    for index, part in enumerate(location):
        inside = (
            part in data
            if isinstance(data, dict)
            else isinstance(data, list) and isinstance(part, int) and part < len(data)
        )
        if inside:
            data = data[part]
        if inside or (index == len(location) - 1 and (isinstance(data, dict) or part == "kind")):
            path.append(part)
    return tuple(path)


def _expected(details: Any, field: FieldInfo | None) -> str:
    error, context = details["type"], details.get("ctx", {})
    is_number_limit = error in _BY_LIMIT and _BY_LIMIT[error].startswith("a number")
    if field is not None and (is_number_limit or error not in _BY_LIMIT):
        return describe_field(field)
    if not details["loc"]:
        return "a spec with `version`, `name`, `data` and so on"
    if error in _BY_LIMIT:
        limit = _BY_LIMIT[error].format(**context)
        return _ONE_OF_SEVERAL.sub(r"\1", limit)
    known = _BY_TYPE.get(error.split("_")[0])
    return known or f"another value ({str(details['msg']).removeprefix('Input should be ')})"


def _hint(error: str, context: dict[str, Any], value: Any) -> str:
    if error == "string_type" and type(value) in (int, float):
        return "Quote it if it is a name."
    if not isinstance(value, str):
        return ""
    if error == "literal_error":
        return suggest_kind(
            value,
            [choice.strip(" '") for choice in context["expected"].replace(" or ", ",").split(",")],
        ).strip()
    if error.startswith("bool"):
        return suggest_truth(value)
    return suggest_number(value) if error.startswith(("int", "float")) else ""


def _unknown_key(key: str, block: type[Options] | None) -> str:
    known = list(fields_by_key(block)) if block else []
    if block is not None and issubclass(block, Component):
        known.insert(0, "kind")
        whose = f"the {block.kind} kind" if block.kind else "this block"
    else:
        whose = "a spec" if block is Spec else "this block"
    return (
        f"expected a key of {whose}, got {key!r}. Known: "
        f"{', '.join(known) or 'none'}.{suggest_key(key, known)}"
    )


def _block_at(path: Path, data: Any, registry: Registry) -> type[Options] | None:
    """Find the type of the block at a path, so that its keys and fields can be named."""
    block: type[Options] | None = Spec
    named = False  # whether the next part is a name that the spec gives, not a key of the block
    for part in path:
        data = data[part] if isinstance(data, dict | list) else None  # type: ignore[index]
        if isinstance(part, int) or named:
            named = False
            continue
        field = fields_by_key(block).get(part) if block else None
        if field is None:
            return None
        mark = find_in_type(ComponentOf, field.annotation, field.metadata)
        if mark is None:
            block, named = meant_block(field.annotation, data), get_origin(field.annotation) is dict
            continue
        try:
            block = registry.load(mark.block, split_kind(mark.block, data)[0])
        except (UsageError, ValidationError):
            return None
    return block
