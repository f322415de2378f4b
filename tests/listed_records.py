"""A dataset of records from a list, for tests of records that can't be read."""

from __future__ import annotations

from typing import Any

from torch.utils.data import Dataset


class Listed(Dataset[Any]):
    """Records from a list; an exception among them is raised when it is read."""

    def __init__(self, records: list[Any]) -> None:
        self.records = records

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, index: int) -> Any:
        if isinstance(self.records[index], Exception):
            raise self.records[index]
        return self.records[index]
