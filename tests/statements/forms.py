"""Every form that a sentence, a heading or a row of a statement can have.

A form has a pattern, when it is due, and a check that holds what was matched against the run's own
files. `faults` reads a whole statement: an element that no form matches is a fault, and so are a
check that fails, a form that is due and missing, and one that is there and not due.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from statements.elements import elements
from statements.facts import Facts

Check = Callable[..., Any]


@dataclass(frozen=True)
class Form:
    """One form of an element."""

    pattern: re.Pattern[str]
    due: Callable[[Facts], int | bool]
    """How often the form stands in the statement of a run with these facts."""
    check: Check
    """Whether the matched texts agree with the facts."""


FORMS: list[Form] = []


def form(
    pattern: str, due: Callable[[Facts], int | bool], check: Check = lambda facts: True
) -> None:
    """Add a form; the pattern has a group for each fact that the check compares."""
    FORMS.append(Form(re.compile(pattern), due, check))


def faults(facts: Facts, text: str) -> list[str]:
    """Return what is wrong with a statement's text, by the files of its run."""
    found: list[str] = []
    seen: Counter[Form] = Counter()
    for element in elements(text):
        each, fault = facts.once(element, read_element)
        if each is not None:
            seen[each] += 1
        if fault:
            found.append(f"{fault}: {element}")
    for each, due in facts.once("due", due_forms).items():
        if seen[each] != due:
            found.append(f"expected {due} times, got {seen[each]}: {each.pattern.pattern}")
    return found


def read_element(facts: Facts, element: str) -> tuple[Form | None, str]:
    """Return the form of an element, where it has one, and what is wrong with it."""
    fitting = fitting_forms(element)
    if len(fitting) != 1:
        return None, f"{len(fitting)} forms match"
    each, match = fitting[0]
    return each, "" if each.check(facts, *match.groups()) else "not what the files say"


@cache
def fitting_forms(element: str) -> list[tuple[Form, re.Match[str]]]:
    """Return the forms that an element has; it should be one."""
    matches = [(each, each.pattern.fullmatch(element)) for each in FORMS]
    return [(each, match) for each, match in matches if match]


def due_forms(facts: Facts, name: str) -> dict[Form, int]:
    """Return how often each form is due."""
    return {each: int(each.due(facts)) for each in FORMS}


def always(facts: Facts) -> bool:
    return True


def private(facts: Facts) -> bool:
    return facts.private


def protects(facts: Facts) -> bool:
    return facts.protects


def fresh(facts: Facts) -> bool:
    """Return whether noise was drawn, and not seeded."""
    return facts.private and not facts.seeded


def secure(facts: Facts) -> bool:
    return facts.private and bool(facts.option("noise", "secure"))


def pretrained(facts: Facts) -> bool:
    """Return whether training started from weights that no private run is known to have made."""
    return facts.option("model", "pretrained") is not None and facts.earlier is None
