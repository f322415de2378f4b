"""Public inputs that a learner is given beside the run's own records: how many, and which ones.

They are named by a data block inside the learner's own, such as `learner.public`. Its problems are
reported at that block. Nothing here reads a record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dppipe.errors import Problem, SpecError, UsageError

if TYPE_CHECKING:
    from dppipe.data.base import Data
    from dppipe.learners.base import Learner

PLACE = ("learner", "public")
"""The block of a spec that names the public inputs."""
_HOW_USED = {
    "records",
    "users",
    "split",
    "holdout",
    "public",
    "on_bad_record",
    "normalize",
    "features",
}
"""Options of a data block that decide how records are used, not which records there are."""


@contextmanager
def placed_at_public() -> Iterator[None]:
    """Report problems of a data block at the learner's block of public inputs."""
    try:
        yield
    except SpecError as error:
        moved = []
        for problem in error.problems:
            inside = problem.path[1:] if problem.path[:1] == ("data",) else problem.path
            moved.append(replace(problem, path=(*PLACE, *inside)))
        raise SpecError(moved) from error
    except UsageError as error:
        text = str(error)
        if not text.startswith(("data:", "data.")):
            raise
        raise UsageError(f"{'.'.join(PLACE)}{text.removeprefix('data')}") from error


def count_public_inputs(learner: Learner) -> int | None:
    """Return how many public inputs a learner is given; None where it takes none."""
    public = learner.public_data
    if public is None:
        return None
    with placed_at_public():
        count: Callable[[], int] = getattr(public, "count_inputs", public.count)
        return count()


def public_data_problems(data: Data, public: Data | None) -> Iterator[Problem]:
    """Yield what keeps public inputs from being used beside the run's own records."""
    if public is None:
        return
    with placed_at_public():
        shape = tuple(public.input_shape)
    if shape != tuple(data.input_shape):
        yield Problem(
            PLACE,
            f"expected inputs of shape {list(data.input_shape)}, as the run's records have, got "
            f"{list(shape)}. Bring both to one shape.",
        )
    if name_same_records(data, public):
        yield Problem(
            PLACE,
            "expected other records than the run's own, which are private, got the same ones. Name "
            "inputs that need no protection.",
        )
    if public.private_scaling is not None:
        yield Problem(
            (*PLACE, "normalize"), "expected constants, got kind: private. Give constants instead."
        )
    if public.feature_map is not None:
        yield Problem(
            (*PLACE, "features"),
            "expected none, as public inputs get the features of the run's own records, got some. "
            "Remove them.",
        )
    if public.split != type(public).model_fields["split"].default:
        yield Problem(
            (*PLACE, "split"),
            "expected none, as all public inputs are used, got one. Remove it.",
        )


def name_same_records(data: Data, public: Data) -> bool:
    """Return whether two data blocks name a file in common; without files, the same records."""
    private_files = _files(data)
    public_files = _files(public)
    if private_files or public_files:
        return bool(private_files & public_files)
    return _which_records(data) == _which_records(public)


def _files(data: Data) -> set[Path]:
    return {value.resolve() for value in vars(data).values() if isinstance(value, Path)}


def _which_records(data: Data) -> dict[str, Any]:
    return {name: value for name, value in data.to_data().items() if name not in _HOW_USED}
