"""The options of a run by dotted names, and which of them differ between settings.

A setting is all that a run was told, but for its seed, its name and what changes neither cost nor
result (`performance`, the logger, how often checkpoints are written).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

_NO_PART = ("version", "name", "seed", "performance", "train.logger", "train.checkpoint_every")
"""Options and blocks that are no part of a setting."""
_OF_PLAN = ("records", "steps")
"""Facts of a plan that can differ under one spec: the file has grown, say."""
_TAKEN = {"epsilon", "name", "runs", "ended", "seconds"}
"""Names of other columns, which an option's short name mustn't take."""
_IN_TITLES = ("budget", "budget.delta", "budget.relation", "budget.unit")
"""What decides in which ranking a setting stands, so that no column has to say it."""
_WITHOUT_SPEC = (
    *("name", "learner", "records", "steps", "schedule", "relation", "unit", "budget_epsilon"),
    *("delta", "accountant", "sampler", "sample_rate", "clipping", "max_grad_norm", "mechanism"),
    *("noise", "bounds", "batches", "releases"),
)
"""What a plan says of a run that was made in Python, whose model and optimizer it can't name."""


def options_of_spec(spec: Mapping[str, Any], plan: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a run that has a spec."""
    found = _flat(spec)
    kept = {name: value for name, value in found.items() if not _has_no_part(name)}
    for name in _OF_PLAN:
        kept[f"plan.{name}"] = plan.get(name)
    return kept


def options_of_plan(plan: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the plan of a run made in Python says; its name stands for the model."""
    found: dict[str, Any] = {}
    for name in _WITHOUT_SPEC:
        if plan.get(name) is not None:
            value = plan[name]
            found[f"plan.{name}"] = _text(value) if isinstance(value, dict | list) else value
    return found


def differing_options(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of the options in which settings differ, in the order of the specs.

    Options that only some kinds of a component have are left out where the kind tells them apart.
    """
    names: dict[str, None] = {}
    for options in settings:
        names |= dict.fromkeys(options)
    differing = [name for name in names if len(_values(name, settings)) > 1]
    said = [name for name in differing if name not in _IN_TITLES]
    return [name for name in said if not _follows_from_kind(name, settings, differing)]


def short_names(names: Sequence[str]) -> dict[str, str]:
    """Return the shortest ends of dotted names that tell them apart.

    `kind`, and what would have the name of another column, keep their block.
    """
    shortened: dict[str, str] = {}
    for name in names:
        parts = name.split(".")
        needs_block = parts[-1] == "kind" or parts[-1] in _TAKEN
        length = min(2 if needs_block else 1, len(parts))
        while length < len(parts) and _is_end_of_another(parts[-length:], name, names):
            length += 1
        shortened[name] = ".".join(parts[-length:])
    return shortened


def shown_option(value: Any) -> str:
    """Return an option's value as a spec would have it; nothing for one that isn't there."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def _is_end_of_another(end: Sequence[str], name: str, names: Sequence[str]) -> bool:
    return any(other != name and other.split(".")[-len(end) :] == list(end) for other in names)


def _flat(data: Any, *, under: str = "") -> dict[str, Any]:
    """Return nested blocks as one level of dotted names; lists become text."""
    if isinstance(data, Mapping) and data:
        found: dict[str, Any] = {}
        for name, value in data.items():
            found |= _flat(value, under=f"{under}.{name}" if under else str(name))
        return found
    return {under: _text(data) if isinstance(data, list | dict) else data}


def _text(value: Any) -> str:
    return json.dumps(value, default=str)


def _has_no_part(name: str) -> bool:
    return any(name == other or name.startswith(f"{other}.") for other in _NO_PART)


def _values(name: str, settings: Sequence[Mapping[str, Any]]) -> set[str]:
    return {repr(options.get(name)) for options in settings}


def _follows_from_kind(
    name: str, settings: Sequence[Mapping[str, Any]], differing: Sequence[str]
) -> bool:
    """Whether only settings of some kind have an option, and all of these the same value."""
    having = [options for options in settings if name in options]
    if len(having) == len(settings) or len(_values(name, having)) > 1:
        return False
    parts = name.split(".")
    kinds = [".".join([*parts[:length], "kind"]) for length in range(1, len(parts))]
    # `budget: none` and `model: own` are blocks that other settings have options in.
    blocks = [".".join(parts[:length]) for length in range(1, len(parts))]
    return any(other in differing for other in (*kinds, *blocks) if other != name)
