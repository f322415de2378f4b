"""Public limits for groups of features, in the spec or in a file of their own.

A group names features by their numbers, from 0, or the columns of a table by their names. A file is
CSV with the columns `feature`, `lower` and `upper`; it is read with the spec, as a part of it.

Guarantee: limits are public. However they are chosen, a record's vector has the same bound.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, model_validator

from dppipe.component import Field, Options
from dppipe.errors import Problem, SpecError
from dppipe.spec.messages.suggestions import suggest_name

_PLACE = ("data", "normalize", "limits")
_COLUMNS = ["feature", "lower", "upper"]
_RANGE = re.compile(r"(\d+)(?:\s*-\s*(\d+))?")


def _as_texts(value: Any) -> Any:
    listed = value if isinstance(value, list | tuple) else [value]
    return tuple(str(one) if type(one) is int else one for one in listed)


class LimitGroup(Options):
    """Some features that share public limits."""

    features: Annotated[
        tuple[str, ...],
        BeforeValidator(_as_texts, json_schema_input_type=str | int | list[str | int]),
    ] = Field(
        min_length=1,
        examples=["0-9"],
        description="Features by number, such as 3 or 0-9, from 0; of a table, columns by name.",
    )
    lower: float = Field(description="No value counts for less.")
    upper: float = Field(description="No value counts for more.")

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.lower >= self.upper:
            raise ValueError(f"expected lower < upper, got {self.lower:g} and {self.upper:g}.")
        return self

    def places(self, channels: int) -> list[int]:
        """Return the features' numbers; refuse one that isn't there."""
        found: list[int] = []
        for feature in self.features:
            match = _RANGE.fullmatch(feature.strip())
            first = int(match[1]) if match else -1
            last = int(match[2] or match[1]) if match else -1
            if not 0 <= first <= last < channels:
                raise _fault(
                    f"expected features from 0 to {channels - 1}, such as 3 or 0-9, got "
                    f"{feature!r}. Correct it."
                )
            found.extend(range(first, last + 1))
        return found

    def by_number(self, names: Sequence[str]) -> LimitGroup:
        """Return the group with the numbers of named columns in place of their names."""
        numbers = []
        for name in self.features:
            if name not in names:
                raise _fault(f"expected a numeric column, got {name!r}.{suggest_name(name, names)}")
            numbers.append(str(names.index(name)))
        return LimitGroup(features=tuple(numbers), lower=self.lower, upper=self.upper)


def limits_of_groups(
    groups: Sequence[LimitGroup], lower: Sequence[float], upper: Sequence[float]
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the limits of all features: those of their group, or else the given ones."""
    lows = list(lower)
    highs = list(upper)
    named: set[int] = set()
    for group in groups:
        for place in group.places(len(lows)):
            if place in named:
                raise _fault(f"expected each feature in one group, got {place} in two.")
            named.add(place)
            lows[place] = group.lower
            highs[place] = group.upper
    return tuple(lows), tuple(highs)


def groups_of(value: Any) -> Any:
    """Return groups as the spec has them; a path is read."""
    if isinstance(value, str | Path):
        return read_limits(Path(value))
    return tuple(value) if isinstance(value, list) else value


def read_limits(path: Path) -> tuple[dict[str, Any], ...]:
    """Read the limits of a file, one feature or range of features a line."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.reader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = getattr(error, "strerror", None) or "it isn't a text file"
        raise ValueError(f"expected a CSV file of limits, got {path}: {reason}.") from None
    if not rows or [name.strip() for name in rows[0]] != _COLUMNS:
        raise ValueError(f"expected a first line {','.join(_COLUMNS)} in {path}, got another.")
    groups: list[dict[str, Any]] = []
    for number, row in enumerate(rows[1:], start=2):
        if not row:
            continue
        try:
            feature, lower, upper = row
            low = float(lower)
            high = float(upper)
        except ValueError:
            raise ValueError(
                f"{path}:{number}: expected a feature and two numbers, got another line. Correct "
                "it."
            ) from None
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise ValueError(
                f"{path}:{number}: expected lower < upper, both finite, got {lower} and {upper}."
            )
        groups.append({"features": [feature.strip()], "lower": low, "upper": high})
    if not groups:
        raise ValueError(f"expected limits in {path}, got none.")
    return tuple(groups)


def _fault(message: str) -> SpecError:
    return SpecError([Problem(_PLACE, message)])
