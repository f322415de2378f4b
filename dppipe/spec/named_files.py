"""Files that a spec names, looked at before anything is planned: are they there, and do their
headers have what the spec asks for?

Nothing here reads a record. A plan doesn't need the files, so only `dppipe validate` asks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from dppipe.component import Component
from dppipe.errors import DppipeError, Problem, SpecError
from dppipe.spec.public_data import placed_at_public
from dppipe.spec.spec import Spec


def file_problems(spec: Spec) -> Iterator[Problem]:
    """Yield what is wrong with the files that a spec names, by their headers alone."""
    for block in type(spec).model_fields:
        component = getattr(spec, block)
        if isinstance(component, Component):
            yield from _problems(component.check_files, block=block)
    public = spec.learner.public_data
    if public is not None and not hasattr(public, "count_inputs"):  # else the rules have counted
        yield from _problems(_at_public(public), block="learner")


def _at_public(public: Component) -> Callable[[], None]:
    def check() -> None:
        with placed_at_public():
            public.check_files()

    return check


def _problems(check: Callable[[], None], *, block: str) -> Iterator[Problem]:
    try:
        check()
    except SpecError as error:
        yield from error.problems
    except DppipeError as error:
        yield _of_text(str(error), block=block)
    except (OSError, ValueError) as error:
        # Of a kind that isn't dppipe's own: its text may contain a record's value.
        yield Problem(
            (block,), f"expected files that can be looked at, got {type(error).__name__}."
        )


def _of_text(text: str, *, block: str) -> Problem:
    """Return the problem of an error whose text may begin with its key, such as `data.path: `."""
    key, _, message = text.partition(": ")
    if key == block or key.startswith(f"{block}."):
        return Problem(tuple(key.split(".")), message)
    return Problem((block,), text)
