"""Messages about a record that can't be used, for the owner of the data, before any charge.

A message names the record's place and never its value. It still reveals something about a private
record, so it says that too.
"""

from __future__ import annotations

from dppipe.errors import UsageError

NOTICE = (
    "This reveals something about a private record: show it only to people who may see the data."
)
DROP = f"{NOTICE} data.on_bad_record: drop keeps the place of such records and leaves them out."


def bad_record(place: str, fault: str, *, notice: str = DROP) -> UsageError:
    """Return the error of a record at a place, such as `data/visits.csv: line 7`."""
    return UsageError(f"{place}: {fault} {notice}")
