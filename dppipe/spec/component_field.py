"""The type of a field that holds a component: `{kind: flat, ...}`, the bare name `flat`, or
`class_path` with `init_args`.

`Annotated[Component, ComponentOf("clipping")]` finds the class in the registry and reads the
options with that class, so errors stand at the option's own place. The registry is pydantic's
validation context; without one, what stands here is used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationError, ValidationInfo
from pydantic_core import CoreSchema, InitErrorDetails, PydanticCustomError, core_schema

from dppipe.component import Component
from dppipe.errors import SpecError, UsageError
from dppipe.spec.kinds.families import FAMILIES
from dppipe.spec.kinds.plugins import describe_failure
from dppipe.spec.kinds.registry import Registry, built_in_kinds, load_built_in

FAMILY_MARK = "x-dppipe-family"
"""Marks a component in a JSON schema until `schema.py` inserts the registered kinds."""


@dataclass(frozen=True)
class ComponentOf:
    """Marks a field as holding a component of one family."""

    block: str

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Read with the registry, write with `to_data`."""
        return core_schema.with_info_plain_validator_function(
            self._read,
            serialization=core_schema.plain_serializer_function_ser_schema(Component.to_data),
        )

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Leave a mark, as the kinds depend on the registry."""
        return {FAMILY_MARK: self.block}

    def _read(self, value: Any, info: ValidationInfo) -> Component:
        if isinstance(value, Component):
            return value
        registry = info.context if isinstance(info.context, Registry) else Registry()
        kind, options = split_kind(self.block, value)
        try:
            cls = registry.load(self.block, kind)
        except UsageError as error:
            raise _error(str(error), value, at=("kind",)) from error
        try:
            return cls.from_data(options, context=registry)
        except ValidationError:
            raise
        except SpecError as error:
            raise _error(error.problems[0].message, value) from error
        except Exception as error:
            if cls.__module__.startswith("dppipe.") and not cls.__module__.startswith(
                "dppipe.spec.kinds.plugins."
            ):
                raise
            raise _error(
                f"the kind {kind!r} failed on its options: "
                f"{describe_failure(error, _file_of(cls))}.",
                value,
            ) from error


def split_kind(block: str, value: Any) -> tuple[str, dict[str, Any]]:
    """Return the kind and the options of a component as a spec writes it."""
    if isinstance(value, str):
        return value, {}
    one = FAMILIES[block].one
    if not isinstance(value, dict):
        raise _error(
            f"expected the name of {one} or a block with `kind`, got {_show(value)}. Give one.",
            value,
        )
    options = {key: option for key, option in value.items() if key != "kind"}
    if "kind" not in value:
        if "class_path" in value:
            return "class_path", options
        known = ", ".join(sorted(built_in_kinds(FAMILIES[block])))
        message = f"expected the name of {one}, got nothing. Say which one by `kind`: {known}."
        raise _error(message, value, at=("kind",), type="missing_kind")
    if not isinstance(value["kind"], str):
        raise _error(
            f"expected the name of {one}, got {_show(value['kind'])}. Give one.",
            value,
            at=("kind",),
        )
    return value["kind"], options


def default_component(block: str, kind: str) -> Callable[[], Any]:
    """Return a default factory that imports a built-in kind and makes it with its defaults."""
    return lambda: load_built_in(FAMILIES[block], kind)()


def _file_of(cls: type) -> Path:
    import sys

    return Path(sys.modules[cls.__module__].__file__ or cls.__module__)


def _show(value: Any) -> str:
    return {type(None): "nothing", list: "a list", bool: str(value).lower()}.get(
        type(value), repr(value)
    )


def _error(
    message: str, value: Any, *, at: Sequence[str] = (), type: str = "dppipe"
) -> ValidationError:
    details = InitErrorDetails(
        type=PydanticCustomError(type, "{text}", {"text": message}), loc=tuple(at), input=value
    )
    return ValidationError.from_exception_data("component", [details])
