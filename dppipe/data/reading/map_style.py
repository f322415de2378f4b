"""Map-style datasets: their records can be read by number, as a private step must."""

from __future__ import annotations

from typing import Any

from dppipe.errors import UsageError


def require_map_style(dataset: Any, *, place: str) -> None:
    """Refuse a dataset that only streams its records, or doesn't know how many it has."""
    from torch.utils.data import IterableDataset

    kind = type(dataset)
    streams = isinstance(dataset, IterableDataset)
    if streams or not (hasattr(kind, "__len__") and hasattr(kind, "__getitem__")):
        raise UsageError(
            f"{place}: expected a map-style data set, with __len__ and __getitem__, "
            f"got {kind.__name__}. "
            "A private step draws each record by its number, so a stream won't do. "
            "Read the records into a list, and use that."
        )
