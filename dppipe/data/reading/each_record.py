"""Reading every record of a dataset once; a record that raises stops nothing."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from dppipe.class_path import describe_failure
from dppipe.errors import RECORD_ERRORS

if TYPE_CHECKING:
    from torch.utils.data import Dataset

Seen = TypeVar("Seen")


@dataclass(frozen=True)
class Unreadable:
    """A record that couldn't be read or examined."""

    reason: str
    """The kind of error and its line in the user's code, never its text."""


def read_each(dataset: Dataset[Any], look: Callable[[Any], Seen]) -> list[Seen | Unreadable]:
    """Return what `look` finds in each record, in the order of the data.

    Guarantee: what is found in a record doesn't depend on the records before it, unless the dataset
    keeps a state of its own.
    """
    found: list[Seen | Unreadable] = []
    with still_generators() as restart:
        for index in range(len(dataset)):  # type: ignore[arg-type]
            restart()
            try:
                found.append(look(dataset[index]))
            except RECORD_ERRORS as error:
                found.append(Unreadable(describe_failure(error)))
    return found


@contextmanager
def still_generators() -> Iterator[Callable[[], None]]:
    """Yield a function that sets the global generators to one state; restore them at the end.

    Otherwise the content of a record of a dataset that draws from them, for augmentation, would
    depend on the records that were read before. Its warnings aren't shown.
    """
    import numpy
    import torch

    kept_python = random.getstate()
    kept_numpy = numpy.random.get_state()

    def restart() -> None:
        random.seed(0)
        numpy.random.seed(0)
        torch.default_generator.manual_seed(0)

    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield restart
        finally:
            random.setstate(kept_python)
            numpy.random.set_state(kept_numpy)
