"""Components to try: a kind with its defaults, then with one option at a time at each of its
limits.

Options without a default take the first of `Field(examples=[...])`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, get_args, get_origin

import annotated_types
from pydantic import ValidationError
from pydantic.fields import FieldInfo

from dppipe.component import Component
from dppipe.errors import DppipeError, UsageError
from dppipe.plugin_kit.checks.table import Fault
from dppipe.spec.kinds.registry import Registry
from dppipe.spec.messages.describe import fields_by_key
from dppipe.spec.yaml.reader import read_yaml

STEP = 1e-3
"""How far from a limit that it may not reach a number is put, as a share of what there is between
the limits.
"""


def make_components(
    cls: type[Component], *, registry: Registry, options: Mapping[str, Any] | None = None
) -> tuple[Component, ...]:
    """Make a kind with its defaults, and with each option at its limits.

    Combinations that the kind refuses itself are left out. `options` take the place of defaults.
    """
    fields = fields_by_key(cls)
    known = dict(options or {})
    for name in known:
        if name not in fields:
            raise Fault(
                f"--set {name}: expected an option of {cls.kind}, got another. Known: "
                f"{', '.join(fields)}."
            )
    needed = {}
    for name, field in fields.items():
        if field.is_required() and name not in known:
            needed[name] = field
    without = [name for name, field in needed.items() if not field.examples]
    if without:
        raise Fault(
            "expected a default or Field(examples=[...]) for every option, got none for "
            f"{', '.join(without)}. The checks need a value to try: give one in the file, or by "
            f"--set {without[0]}=VALUE."
        )
    given = {name: (field.examples or [None])[0] for name, field in needed.items()} | known
    made = [cls.from_data(given, context=registry)]
    for name, field in fields.items():
        for value in _limits(field):
            try:
                one = cls.from_data(given | {name: value}, context=registry)
            except (ValidationError, DppipeError):
                continue
            if one not in made:
                made.append(one)
    return tuple(made)


def read_options(pairs: Sequence[str]) -> dict[str, Any]:
    """Read `OPTION=VALUE` pairs, whose values are YAML."""
    found: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        value = read_yaml(text)
        if not equals or not name.strip() or value.faults:
            raise UsageError(f"--set: expected OPTION=VALUE, such as size=100, got {pair!r}.")
        found[name.strip()] = value.data
    return found


def _limits(field: FieldInfo) -> Iterator[Any]:
    if get_origin(field.annotation) is Literal:
        yield from get_args(field.annotation)
    elif field.annotation is bool:
        yield from (False, True)
    elif field.annotation in (int, float):
        yield from _ends(field, whole=field.annotation is int)


def _ends(field: FieldInfo, *, whole: bool) -> Iterator[float]:
    low, open_low = _limit(field, annotated_types.Ge, "ge", annotated_types.Gt, "gt")
    high, open_high = _limit(field, annotated_types.Le, "le", annotated_types.Lt, "lt")
    span = (
        high - low
        if low is not None and high is not None
        else max(1.0, abs(low or 0), abs(high or 0))
    )
    step = 1 if whole else STEP * span
    if low is not None:
        yield low + step if open_low else low
    if high is not None:
        yield high - step if open_high else high


def _limit(
    field: FieldInfo, closed: Any, closed_name: str, opened: Any, opened_name: str
) -> tuple[Any, bool]:
    for mark in field.metadata:
        if isinstance(mark, closed):
            return getattr(mark, closed_name), False
        if isinstance(mark, opened):
            return getattr(mark, opened_name), True
    return None, False
