"""The table of checks: a check is a function that raises a Fault; its docstring is the line that is
printed.

`check_each` is for a check of one component: it is called with the kind's defaults and with options
at their limits. `check_kind` is for a check of the kind as a whole. What a check returns is a
remark for the person who reads it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from dppipe.component import Component
from dppipe.spec.kinds.registry import Registry

Remark = str | None
_F = TypeVar("_F", bound=Callable[..., Remark])


class Fault(Exception):
    """What is wrong with a plugin: `expected ..., got ... . What to do.`"""


@dataclass(frozen=True, eq=False)
class Trial:
    """A kind under test; no two are the same."""

    block: str
    cls: type[Component]
    file: Path
    registry: Registry
    made: tuple[Component, ...]
    """The kind with its defaults, then with one option at a time at its limits."""
    built_in: bool = False
    """Whether the kind is one of dppipe's own, not of a plugin file."""


@dataclass(frozen=True)
class Check:
    """One line of the table."""

    block: str
    """The family that it is for; `any` for all of them."""
    title: str
    """What is tried: the check's docstring."""
    run: Callable[[Trial], Remark]


CHECKS: list[Check] = []
"""Every check, in the order in which they are printed."""


def check_kind(block: str) -> Callable[[_F], _F]:
    """Put a check of a kind as a whole into the table: it takes the trial."""

    def put(function: _F) -> _F:
        CHECKS.append(Check(block, _title(function), function))
        return function

    return put


def check_each(block: str) -> Callable[[_F], _F]:
    """Put a check of one component into the table: it takes the component, with each set of options
    in turn.
    """

    def put(function: _F) -> _F:
        def run(trial: Trial) -> Remark:
            remarks = []
            for component in trial.made:
                try:
                    remarks.append(function(component))
                except Exception as error:
                    error.add_note(_changed_options(trial, component))
                    raise
            return remarks[0]

        CHECKS.append(Check(block, _title(function), run))
        return function

    return put


def _title(function: Callable[..., Remark]) -> str:
    text = " ".join((function.__doc__ or function.__name__).split()).rstrip(".")
    return text[0].lower() + text[1:]


def _changed_options(trial: Trial, component: Component) -> str:
    """Say which options were not the defaults."""
    usual: dict[str, Any] = trial.made[0].to_data()
    changed = {
        name: value for name, value in component.to_data().items() if usual.get(name) != value
    }
    return (
        f"(with {', '.join(f'{name}: {value}' for name, value in changed.items())})"
        if changed
        else ""
    )
