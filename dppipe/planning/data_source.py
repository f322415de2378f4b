"""Where the records of a run come from, as far as that is public; its statement names it.

Nothing here depends on a record. Sizes and fingerprints of files would, so neither is kept.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import SerializerFunctionWrapHandler, model_serializer

from dppipe.planning.frozen_data import FrozenData


class DataSource(FrozenData):
    """Where the records come from."""

    kind: str
    """The data kind of the spec, or the class of a dataset that was made in Python."""
    files: tuple[str, ...] = ()
    """The files and folders that the spec names."""
    user: str | None = None
    """The column, array or attribute that says whose each record is."""
    on_bad_record: Literal["refuse", "drop"] = "drop"
    """Whether a record that can't be used is dropped, or keeps the run from starting."""
    bounds: tuple[str, ...] = ()
    """The columns whose values are held to public bounds, with the bounds."""
    public_files: tuple[str, ...] = ()
    """Files that are taken as public: records are read by their rules."""
    assumed: tuple[str, ...] = ()
    """What the loss takes as publicly known about the records. Left out of a plan if nothing."""
    public: bool = False
    """Whether the spec declares that no record needs protection. Left out of a plan if not."""

    @model_serializer(mode="wrap")
    def _leave_out_what_is_not_declared(
        self, usual: SerializerFunctionWrapHandler
    ) -> dict[str, Any]:
        found: dict[str, Any] = usual(self)
        for name in ("assumed", "public", "public_files"):
            if not getattr(self, name):
                found.pop(name, None)
        return found


def source_of_data(data: Any, *, assumed: str | None = None) -> DataSource:
    """Return what is public about a data kind.

    Args:
        data: A component of the data family.
        assumed: What the loss takes as publicly known about the records.
    """
    files = []
    for name in type(data).model_fields:
        option = getattr(data, name)
        if isinstance(option, Path):
            files.append(str(option))
    return DataSource(
        kind=getattr(data, "class_path", data.kind),
        files=tuple(files),
        user=getattr(data, "user", None),
        on_bad_record="drop" if data.drops_bad_records else "refuse",
        bounds=getattr(data, "public_bounds", ()),
        public_files=tuple(map(str, getattr(data, "public_files", ()))),
        assumed=() if assumed is None else (assumed,),
        public=bool(data.public),
    )


def source_of_dataset(dataset: object) -> DataSource:
    """Return what is public about a dataset that was made in Python.

    A record that can't be read contributes nothing.
    """
    made = type(dataset)
    user = "users" if hasattr(dataset, "users") else None
    return DataSource(kind=f"{made.__module__}.{made.__qualname__}", user=user)
