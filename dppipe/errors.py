"""Every error that dppipe raises on purpose, and the exit code a command ends with.

    DppipeError              1  failed
    ├── UsageError           2  the spec, the command line or a named file is wrong
    │   ├── SpecError        2  one or more Problems, each with its place in the spec
    │   └── NoStore          2  no store of shared budgets where one is looked for
    ├── StoreFailed          1  the store of shared budgets can't be reached, read or written
    ├── PartlyAdded          1  an error came while a batch was added to a sum
    ├── PrivacyRefusal       3  refused for privacy's sake
    │   └── BudgetExhausted  3  the next step would exceed the budget
    └── Interrupted     130/143 stopped by a signal; the run can be resumed

Exit code 4 is no error: `dppipe ledger verify` and `--second-opinion` end with it where what they
have checked doesn't hold.

A message has the shape `place: what was expected, got value. What to do.` and never contains a
record's value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

RECORD_ERRORS = (Exception, SystemExit)
"""What user code may raise over a record. Ctrl-C is none of it."""


class DppipeError(Exception):
    """The root: a command that ends with it prints the message and no traceback."""

    exit_code: int = 1


class UsageError(DppipeError):
    """The spec, the command line or a named file is wrong."""

    exit_code = 2


@dataclass(frozen=True)
class Problem:
    """One fault of a spec: its place, and what to do about it."""

    path: tuple[str | int, ...]
    """The key's path in the spec, such as `("clipping", "max_grad_norm")`."""
    message: str
    """`expected a number > 0, got -1. What to do.`"""
    at_key: bool = False
    """Whether the key itself is at fault (unknown, repeated), rather than its value."""
    place: str = ""
    """Its place: `file:line:column`, or the `--set` that brought it; empty where that isn't
    known.
    """


class SpecError(UsageError):
    """All the problems of one spec; `text` is already laid out for a person."""

    def __init__(self, problems: Sequence[Problem], text: str | None = None) -> None:
        self.problems = tuple(problems)
        super().__init__(
            text
            or "\n".join(
                f"{'.'.join(map(str, p.path)) or 'spec'}: {p.message}" for p in self.problems
            )
        )


class NoStore(UsageError):
    """There is no store of shared budgets where one is looked for."""


class StoreFailed(DppipeError):
    """The store of shared budgets can't be reached, read or written; nothing was changed in it."""


class PrivacyRefusal(DppipeError):
    """What was asked for would void the guarantee, or can't be given at all."""

    exit_code = 3


class PartlyAdded(DppipeError):
    """An error came after a part of a batch was added to a sum; the sum must not be released."""


class BudgetExhausted(PrivacyRefusal):
    """The next step would exceed the budget."""


class Interrupted(DppipeError):
    """Stopped by a signal after a finished step."""

    def __init__(self, message: str, *, exit_code: int = 130) -> None:
        self.exit_code = exit_code
        super().__init__(message)
