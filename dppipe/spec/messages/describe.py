"""Types in words: what a field expects, for messages and for the reference of the spec."""

from __future__ import annotations

import types
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import annotated_types
from pydantic import WrapValidator
from pydantic.fields import FieldInfo

from dppipe.component import Component, Options
from dppipe.spec.component_field import ComponentOf
from dppipe.spec.kinds.families import FAMILIES

_T = TypeVar("_T")
_WORDS = {
    float: "a number",
    int: "an integer",
    bool: "true or false",
    str: "text",
    Path: "a path",
    type(None): "nothing",
    dict: "a block",
}
_MANY = {
    "a number": "numbers",
    "an integer": "integers",
    "text": "texts",
    "a block": "blocks",
    "a path": "paths",
}
_LIMITS = (
    (annotated_types.Gt, ">", "gt"),
    (annotated_types.Ge, ">=", "ge"),
    (annotated_types.Lt, "<", "lt"),
    (annotated_types.Le, "<=", "le"),
)


def describe_field(field: FieldInfo) -> str:
    """Say what a field expects: `a number > 0`, `one of off and nonprivate`."""
    return describe_type(field.annotation, field.metadata)


def describe_type(annotation: Any, metadata: list[Any]) -> str:
    """Say what a type with its limits expects."""
    if get_origin(annotation) is Annotated:
        return describe_type(get_args(annotation)[0], [*get_args(annotation)[1:], *metadata])
    for mark in metadata:
        if isinstance(mark, ComponentOf):
            return f"the name of {FAMILIES[mark.block].one} or a block with `kind`"
        if isinstance(mark, WrapValidator) and mark.json_schema_input_type is not Any:
            wrapped = mark.json_schema_input_type
            return describe_type(wrapped, [other for other in metadata if other is not mark])
    limits = _limits(metadata)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return join_choices([str(choice) for choice in arguments])
    if origin in (Union, types.UnionType):
        return _describe_union(arguments, metadata)
    if origin in (tuple, list, set, frozenset):
        return _describe_list(origin, arguments)
    if (
        isinstance(annotation, type)
        and issubclass(annotation, Options)
        and not issubclass(annotation, Component)
    ):
        return f"a block with {join_choices(list(fields_by_key(annotation)), last='and')}"
    return _WORDS.get(origin or annotation, "a value") + limits


def _describe_union(members: tuple[Any, ...], metadata: list[Any]) -> str:
    words = []
    for member in members:
        if member is not type(None):
            words.append(describe_type(member, metadata if _is_number(member) else []))
    return " or ".join(words)


def _describe_list(origin: Any, arguments: tuple[Any, ...]) -> str:
    one = describe_type(arguments[0], []) if arguments else "a value"
    word = next((word for word in _MANY if one.startswith(word)), None)
    many = _MANY[word] + one.removeprefix(word) if word else "values"
    fixed = f"{len(arguments)} " if origin is tuple and Ellipsis not in arguments else ""
    return f"a list of {fixed}{many}"


def fields_by_key(block: type[Options]) -> dict[str, FieldInfo]:
    """Return the fields of a block by the keys that a spec writes."""
    return {field.alias or name: field for name, field in block.model_fields.items()}


def join_choices(choices: list[str], *, last: str = "or") -> str:
    """Join names: `a, b or c`."""
    if len(choices) < 2:
        return "".join(choices)
    return f"{', '.join(choices[:-1])} {last} {choices[-1]}"


def find_in_type(wanted: type[_T], annotation: Any, metadata: Any = ()) -> _T | None:
    """Find a mark inside a type, however deep."""
    return next((part for part in _parts(annotation, metadata) if isinstance(part, wanted)), None)


def takes_path(annotation: Any) -> bool:
    """Return whether a path is among the values of a type."""
    return any(part is Path for part in _parts(annotation, ()))


def options_in_type(annotation: Any) -> list[type[Options]]:
    """Find the blocks inside a type: `Split` in `Split | None`."""
    found = []
    for part in _parts(annotation, ()):
        if isinstance(part, type) and issubclass(part, Options):
            found.append(part)
    return found


def meant_block(annotation: Any, data: Any) -> type[Options] | None:
    """Find the block inside a type that has most of the given keys; of equals, the first."""
    given = set(data) if isinstance(data, dict) else set()
    return max(
        options_in_type(annotation),
        key=lambda block: len(given & set(fields_by_key(block))),
        default=None,
    )


def _parts(annotation: Any, metadata: Any) -> Iterator[Any]:
    yield from metadata
    if get_origin(annotation) is Literal:
        return
    if get_args(annotation):
        for part in get_args(annotation):
            yield from _parts(part, ())
    else:
        yield annotation


def _is_number(annotation: Any) -> bool:
    base = get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation
    return base in (int, float)


def _plain(number: float) -> str:
    return str(number) if isinstance(number, int) else f"{number:g}"


def _limits(metadata: list[Any]) -> str:
    marks: list[Any] = []
    for mark in metadata:
        marks += mark.metadata if isinstance(mark, FieldInfo) else [mark]
    found = []
    for mark in marks:
        for type_, sign, name in _LIMITS:
            if isinstance(mark, type_):
                found.append(f"{sign} {_plain(getattr(mark, name))}")
    return f" {' and '.join(found)}" if found else ""
