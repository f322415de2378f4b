"""Where each value of an effective spec comes from: a file, a `--set`, or a default."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from dppipe.spec.performance import gather_performance
from dppipe.spec.spec import Spec
from dppipe.spec.yaml.document import Path
from dppipe.spec.yaml.files import SpecFiles, read_files
from dppipe.spec.yaml.source import Source, read_source

DEFAULT = "default"


class Origin(NamedTuple):
    """A value of a spec and where it comes from."""

    path: Path
    value: Any
    place: str
    """`file:line:column`, the `--set` that brought it, or `default`."""


def find_origins(spec: Spec, files: SpecFiles, *, overrides: Sequence[str] = ()) -> list[Origin]:
    """Return every value of a spec that was read from these files, lists as a whole."""
    source = read_source(read_files(files), overrides=overrides)
    moved = gather_performance(source.data).moved
    origins = []
    for path, value in _values(spec.to_data(), ()):
        origins.append(Origin(path, value, _place(source, moved.get(path, path))))
    return origins


def _values(data: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    if isinstance(data, dict) and data:
        for key, value in data.items():
            yield from _values(value, (*path, key))
    else:
        yield path, data


def _place(source: Source, path: Path) -> str:
    for length in range(len(path), 0, -1):
        label = source.overrides.get(path[:length])
        if label is not None:
            return label if _given(source.data, path) else DEFAULT
        spot = source.layer.values.get(path[:length])
        if spot is not None:
            return source.place(spot) if _given(source.data, path) else DEFAULT
    return DEFAULT


def _given(data: Any, path: Path) -> bool:
    """Return whether the data say a value: itself, or by a bare name of its block."""
    for number, part in enumerate(path):
        if isinstance(data, dict) and part in data:
            data = data[part]
        else:
            return not isinstance(data, dict) and path[number:] in (("kind",), ("path",))
    return True
