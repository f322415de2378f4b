"""Public inputs that a learner is given beside the run's own records: how many, and which ones.

They are named by a data block inside the learner's own, such as `learner.public`. Its problems are
reported at that block. Nothing here reads a record.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from dppipe.errors import Problem, SpecError, UsageError

if TYPE_CHECKING:
    from dppipe.data.base import Data
    from dppipe.learners.base import Learner

PLACE = ("learner", "public")
"""The block of a spec that names the public inputs."""


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
        return public.count_inputs()


def public_data_problems(data: Data, public: Data) -> Iterator[Problem]:
    """Yield what keeps the public inputs from being used beside the run's own records."""
    with placed_at_public():
        shape = tuple(public.input_shape)
    if shape != tuple(data.input_shape):
        yield Problem(
            PLACE,
            f"expected inputs of shape {list(data.input_shape)}, as the run's records have, got "
            f"{list(shape)}. Bring both to one shape.",
        )
    if data.names_same_records(public):
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
