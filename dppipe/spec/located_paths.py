"""Which texts of a spec are paths and addresses: only those may name environment variables, and
those that start with `./` begin where the file that holds them is.

The types of the fields decide: a `Path`, or a field that is marked by `Variables`.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError, WrapValidator
from pydantic.fields import FieldInfo

from dppipe.component import Options
from dppipe.environment import Variables, names_variable, variable_fault
from dppipe.errors import Problem, UsageError
from dppipe.spec.component_field import ComponentOf, split_kind
from dppipe.spec.kinds.registry import Registry
from dppipe.spec.messages.describe import (
    fields_by_key,
    find_in_type,
    meant_block,
    takes_path,
)
from dppipe.spec.spec import Spec
from dppipe.spec.yaml.document import Path
from dppipe.spec.yaml.source import Source, put_value

_CANDIDATES = ("tune", "candidates")


def settle_paths(source: Source, registry: Registry) -> list[Problem]:
    """Make paths that start with `./` absolute; return what is wrong with variables."""
    if not isinstance(source.data, dict):
        return []
    texts = [(path, text) for path, text in _texts(source.data, ()) if _matters(text)]
    if not texts:
        return []
    takes = {*_places(source.data, Spec, (), registry), *_candidate_places(source.data, registry)}
    problems = []
    for path, text in texts:
        if path in takes:
            _settle(source, path, text)
        if not names_variable(text):
            continue
        fault = variable_fault(text)
        if path not in takes:
            fault = (
                f"expected no environment variable here, got {text!r}. Only paths, "
                "budget.store and the options of loggers may name one."
            )
        if fault is not None:
            problems.append(Problem(path, fault))
    return problems


def _matters(text: str) -> bool:
    return text.startswith("./") or names_variable(text)


def _settle(source: Source, path: Path, text: str) -> None:
    """Replace a path that starts with `./` by an absolute one."""
    folder = source.holder(path)
    if folder is None or not text.startswith("./"):
        return
    held: Any = source.data
    for part in path[:-1]:
        held = held[part]
    # Variables stay as they are written: only what stands before them is made absolute.
    held[path[-1]] = str(folder.resolve() / text.removeprefix("./"))


def _texts(data: Any, path: Path) -> Iterator[tuple[Path, str]]:
    if isinstance(data, str):
        yield path, data
    elif isinstance(data, dict):
        for key, value in data.items():
            yield from _texts(value, (*path, key))
    elif isinstance(data, list):
        for number, value in enumerate(data):
            yield from _texts(value, (*path, number))


def _places(data: Any, block: type[Options], path: Path, registry: Registry) -> Iterator[Path]:
    """Yield where a block's data hold a path or an address."""
    fields = fields_by_key(block)
    for key, value in data.items() if isinstance(data, dict) else ():
        field = fields.get(key)
        if field is not None:
            yield from _field_places(value, field, (*path, key), registry)


def _field_places(value: Any, field: FieldInfo, path: Path, registry: Registry) -> Iterator[Path]:
    if find_in_type(Variables, field.annotation, field.metadata) is not None:
        yield from (place for place, _ in _texts(value, path))
        return
    mark = find_in_type(ComponentOf, field.annotation, field.metadata)
    if mark is not None:
        yield from _component_places(value, mark.block, path, registry)
        return
    for annotation in _annotations(field):
        yield from _typed_places(value, annotation, path, registry)


def _component_places(value: Any, family: str, path: Path, registry: Registry) -> Iterator[Path]:
    if not isinstance(value, dict):
        return
    try:
        kind, _ = split_kind(family, value)
        cls = registry.load(family, kind)
    except (UsageError, ValidationError):
        return  # what is wrong with it is reported when the spec is read
    yield from _places(value, cls, path, registry)


def _annotations(field: FieldInfo) -> Iterator[Any]:
    """Yield a field's type, and what a validator around it takes in its place."""
    yield field.annotation
    wrapped = find_in_type(WrapValidator, field.annotation, field.metadata)
    if wrapped is not None:
        yield wrapped.json_schema_input_type


def _typed_places(value: Any, annotation: Any, path: Path, registry: Registry) -> Iterator[Path]:
    if isinstance(value, str):
        if takes_path(annotation):
            yield path
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _typed_places(item, annotation, (*path, number), registry)
    elif isinstance(value, dict):
        block = meant_block(annotation, value)
        if block is not None:
            yield from _places(value, block, path, registry)


def _candidate_places(data: dict[str, Any], registry: Registry) -> Iterator[Path]:
    """Yield the paths among the values that a search tries: `{model.pretrained: [./a, ./b]}`."""
    tune = data.get("tune")
    candidates = tune.get("candidates") if isinstance(tune, dict) else None
    tried: list[tuple[Path, str, Any]] = []
    if isinstance(candidates, dict):
        for option, values in candidates.items():
            for number, value in enumerate(values) if isinstance(values, list) else ():
                tried.append(((*_CANDIDATES, option, number), option, value))
    elif isinstance(candidates, list):
        for number, one in enumerate(candidates):
            for option, value in one.items() if isinstance(one, dict) else ():
                tried.append(((*_CANDIDATES, number, option), option, value))
    for place, option, value in tried:
        if not isinstance(value, str) or not _matters(value):
            continue
        trial = copy.deepcopy({name: block for name, block in data.items() if name != "tune"})
        path, problem = put_value(trial, str(option).split("."), value)
        if problem is None and path in set(_places(trial, Spec, (), registry)):
            yield place
