"""The JSON schema of everything registered, for editors: built-in kinds, plugin files and installed packages.

Asking for it imports every kind; nothing else does. A plugin that can't be imported is left out, as it can't be used either.
"""

from __future__ import annotations

from typing import Any

from pydantic.json_schema import models_json_schema

from dppipe.component import Component, Options
from dppipe.errors import UsageError
from dppipe.spec.component_field import FAMILY_MARK
from dppipe.spec.kinds.families import FAMILIES
from dppipe.spec.kinds.registry import Registry
from dppipe.spec.spec import Spec


def json_schema(registry: Registry | None = None) -> dict[str, Any]:
    """Give the JSON schema of a spec."""
    registry = registry or Registry()
    classes = {block: load_kinds(registry, block) for block in FAMILIES}
    models: list[type[Options]] = [Spec, *(cls for found in classes.values() for cls in found)]
    # One call for all of them, so that classes of one name in two modules get two names.
    references, shared = models_json_schema(
        [(model, "validation") for model in models], by_alias=True
    )
    definitions = shared["$defs"]
    names = {model: references[model, "validation"]["$ref"].rpartition("/")[2] for model in models}
    # Kinds are defined by their own names: classes that are alike but for their kind share one definition until here.
    plain = {name: definitions.pop(name) for name in set(names.values())}
    for block, found in classes.items():
        bare = [{"const": cls.kind} for cls in found if not _needs_options(cls)]
        definitions |= {
            f"{block}-{cls.kind}": _with_kind(plain[names[cls]], cls.kind) for cls in found
        }
        definitions[_name(block)] = {
            "oneOf": bare + [{"$ref": f"#/$defs/{block}-{cls.kind}"} for cls in found]
        }
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return (
        head
        | _resolve(plain[names[Spec]])
        | {"title": "dppipe spec", "$defs": _resolve(definitions)}
    )


def load_kinds(registry: Registry, block: str) -> list[type[Component]]:
    """Import every kind of a family that can be used."""
    classes = []
    for kind in registry.kinds(block):
        try:
            classes.append(registry.load(block, kind))
        except UsageError:
            continue
    return classes


def _name(block: str) -> str:
    return f"any-{block}"  # no class has such a name


def _needs_options(cls: type[Component]) -> bool:
    return any(field.is_required() for field in cls.model_fields.values())


def _with_kind(schema: dict[str, Any], kind: str) -> dict[str, Any]:
    # A user's own class needs no kind: `class_path` says it.
    required = [*([] if kind == "class_path" else ["kind"]), *schema.get("required", [])]
    properties = {"kind": {"const": kind}} | schema.get("properties", {})
    return schema | {"properties": properties, "required": required}


def _resolve(schema: dict[str, Any]) -> dict[str, Any]:
    """Put the registered kinds of a family where its mark stands."""

    def inside(value: Any) -> Any:
        if isinstance(value, list):
            return [inside(item) for item in value]
        return _resolve(value) if isinstance(value, dict) else value

    resolved = {key: inside(value) for key, value in schema.items() if key != FAMILY_MARK}
    return (
        resolved | {"$ref": f"#/$defs/{_name(schema[FAMILY_MARK])}"}
        if FAMILY_MARK in schema
        else resolved
    )
