"""Whose each record is: the ids that make a user the unit of privacy.

They are an attribute `users` of the dataset, one id for each record: integers or texts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dppipe.errors import UsageError

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray
    from torch.utils.data import Dataset


def with_users(dataset: Any, users: Any) -> Any:  # users: [records]
    """Mark on a dataset whose each record is."""
    dataset.users = users
    return dataset


def users_of(dataset: Dataset[Any]) -> NDArray[numpy.int64] | None:  # -> [records]
    """Return the user of each record, numbered from 0 in the order of the ids.

    It is None where a dataset doesn't say.
    """
    import numpy

    ids = ids_of(dataset)
    if ids is None:
        return None
    numbers = numpy.unique(ids, return_inverse=True)[1]
    return numbers.astype(numpy.int64)


def ids_of(dataset: Dataset[Any]) -> NDArray[Any] | None:  # -> [records] of integers or texts
    """Return the id of each record's user; None where a dataset doesn't say."""
    import numpy

    users = getattr(dataset, "users", None)
    if users is None:
        return None
    ids = numpy.asarray(users)
    if ids.shape != (len(dataset),) or ids.dtype.kind not in "iuSU":  # type: ignore[arg-type]
        raise UsageError(
            "data: expected an integer or a text for each record in `users`, got something else."
        )
    return ids


def check_users(users: NDArray[numpy.int64] | None, *, stated: int | None) -> NDArray[numpy.int64]:
    """Return the users of a dataset; refuse none, or another number than is stated.

    `stated` is None where the number isn't public.
    """
    if users is None or not len(users):
        raise UsageError(
            "data.users: expected a data set that says whose each record is, got one that doesn't. "
            "Leave it out."
        )
    count = int(users.max()) + 1
    if stated not in (None, count):
        raise UsageError(
            f"data.users: expected the number of users in the data, {count}, got {stated}. "
            "Correct it."
        )
    return users
