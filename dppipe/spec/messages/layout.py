"""Problems laid out for a person: `file:line:column: path: message`, the source line and a caret,
sorted by place.
"""

from __future__ import annotations

from collections.abc import Sequence

from dppipe.errors import PrivacyRefusal, Problem, SpecError
from dppipe.spec.yaml.source import Located, SpecFile

_SHOWN = 68
"""Characters of a source line that are shown, so that it fits 80 columns and the caret stands below
its place.
"""


class Refusal(Problem):
    """A problem of a spec that is well-formed, but refused for privacy's sake."""


class SpecRefusal(PrivacyRefusal):
    """All the refusals of a spec that has no other problem; the text is already laid out for a
    person.
    """

    def __init__(self, problems: Sequence[Problem], text: str) -> None:
        self.problems = tuple(problems)
        super().__init__(text)


def error_of(located: Sequence[Located], *, files: Sequence[SpecFile]) -> SpecError | SpecRefusal:
    """Return one error for all problems of a spec; it is a refusal if every problem is one."""
    ordered = sorted(located, key=lambda found: (found.spot is None, found.spot or (0, 0, 0)))
    lines = [file.text.splitlines() for file in files]
    laid_out = "\n".join(_lay_out(found, lines) for found in ordered)
    problems = [found.problem for found in ordered]
    if all(isinstance(problem, Refusal) for problem in problems):
        return SpecRefusal(problems, laid_out)
    return SpecError(problems, laid_out)


def _lay_out(found: Located, lines: Sequence[Sequence[str]]) -> str:
    problem, spot = found
    text = f"{problem.place}: {'.'.join(map(str, problem.path)) or 'spec'}: {problem.message}"
    if spot is None or spot.line > len(lines[spot.file]):
        return text
    line, column = lines[spot.file][spot.line - 1], spot.column - 1
    if not line.strip() or not line.isprintable():
        return text
    line, column = _window(line, column)
    return f"{text}\n{spot.line:>6} | {line}\n       | {' ' * column}^"


def _window(line: str, column: int) -> tuple[str, int]:
    """Return the part of a long line around a column, and the column in that part."""
    first = (
        0
        if column < _SHOWN - 24 or len(line) <= _SHOWN
        else min(column - _SHOWN // 2, len(line) - _SHOWN)
    )
    part = line[first : first + _SHOWN]
    at = column - first
    if first:
        part = _blank_first_word(part, before=at)
    if first + _SHOWN < len(line):
        part = _drop_last_word(part, after=at)
    return part, at


def _blank_first_word(part: str, *, before: int) -> str:
    """Return a part of a line whose first word, which may be torn, has become dots."""
    end = part.find(" ", 3, before)
    end = 3 if end < 0 else end
    return f"{'...':>{end}}{part[end:]}"


def _drop_last_word(part: str, *, after: int) -> str:
    """Return a part of a line that ends in dots in place of its last word, which may be torn."""
    room = part[: len(part) - 3]
    end = room.rfind(" ", after)
    return f"{room[:end].rstrip()} ..." if end > after else f"{room}..."
