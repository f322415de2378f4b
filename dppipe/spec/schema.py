"""The JSON schema of everything registered, for editors: built-in kinds, plugin files and installed
packages.

It imports every kind; nothing else does. A plugin that can't be imported can't be used, and is left
out.
"""

from __future__ import annotations

from typing import Any

from pydantic.json_schema import models_json_schema

from dppipe.component import Component, Options
from dppipe.errors import UsageError
from dppipe.spec.component_field import FAMILY_MARK
from dppipe.spec.kinds.families import FAMILIES
from dppipe.spec.kinds.registry import Registry
from dppipe.spec.performance import OLD_BLOCKS, Performance
from dppipe.spec.spec import Spec
from dppipe.spec.train import Train


def json_schema(registry: Registry | None = None) -> dict[str, Any]:
    """Return the JSON schema of a spec.

    Example:
        >>> import json
        >>> from dppipe.spec import json_schema
        >>> text = json.dumps(json_schema())  # for an editor that checks YAML
    """
    registry = registry or Registry()
    classes = {block: load_kinds(registry, block) for block in FAMILIES}
    models: list[type[Options]] = [Spec, Train, Performance]
    for found in classes.values():
        models += found
    schemas, definitions = _schemas(models)
    _add_old_places(schemas, samplers=classes["sampler"])
    for block, found in classes.items():
        forms: list[dict[str, Any]] = []
        forms += [{"const": cls.kind} for cls in found if not _needs_options(cls)]
        for cls in found:
            name = f"{block}-{cls.kind}"
            definitions[name] = _with_kind(schemas[cls], cls.kind)
            forms.append({"$ref": f"#/$defs/{name}"})
        definitions[_name(block)] = {"oneOf": forms}
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    whole = {"title": "dppipe spec", "$defs": _resolve(definitions)}
    return head | _resolve(schemas[Spec]) | whole


def load_kinds(registry: Registry, block: str) -> list[type[Component]]:
    """Import every kind of a family that can be used."""
    classes = []
    for kind in registry.kinds(block):
        try:
            classes.append(registry.load(block, kind))
        except UsageError:
            continue
    return classes


def _schemas(
    models: list[type[Options]],
) -> tuple[dict[type[Options], dict[str, Any]], dict[str, Any]]:
    """Return the schema of each model, and the definitions that they share."""
    # One call for all of them, so that classes of one name in two modules get two names.
    references, shared = models_json_schema(
        [(model, "validation") for model in models], by_alias=True
    )
    definitions = shared["$defs"]
    schemas = {}
    for model in models:
        name = references[model, "validation"]["$ref"].rpartition("/")[2]
        schemas[model] = definitions[name]
    for model in models:
        # Kinds get definitions by their own names: classes that differ in their kind alone share
        # one here.
        name = references[model, "validation"]["$ref"].rpartition("/")[2]
        if model is Spec or issubclass(model, Component):
            definitions.pop(name, None)
    return schemas, definitions


def _add_old_places(
    schemas: dict[type[Options], dict[str, Any]], *, samplers: list[type[Component]]
) -> None:
    """Accept performance settings in their old blocks too, marked as deprecated."""
    settings = schemas[Performance]["properties"]
    for name, block in OLD_BLOCKS.items():
        moved = {"description": f"Moved to `performance.{name}`.", "deprecated": True}
        for model in [Train] if block == "train" else samplers:
            schemas[model]["properties"][name] = settings[name] | moved


def _name(block: str) -> str:
    return f"any-{block}"  # no class has such a name


def _needs_options(cls: type[Component]) -> bool:
    return any(field.is_required() for field in cls.model_fields.values())


def _with_kind(schema: dict[str, Any], kind: str) -> dict[str, Any]:
    required = list(schema.get("required", []))
    if kind != "class_path":  # a user's own class is named by `class_path` alone
        required.insert(0, "kind")
    properties = {"kind": {"const": kind}} | schema.get("properties", {})
    return schema | {"properties": properties, "required": required}


def _resolve(schema: dict[str, Any]) -> dict[str, Any]:
    """Replace the mark of a family by a reference to its registered kinds."""
    resolved = {key: _resolve_inside(value) for key, value in schema.items() if key != FAMILY_MARK}
    if FAMILY_MARK in schema:
        resolved["$ref"] = f"#/$defs/{_name(schema[FAMILY_MARK])}"
    return resolved


def _resolve_inside(value: Any) -> Any:
    if isinstance(value, list):
        return [_resolve_inside(item) for item in value]
    return _resolve(value) if isinstance(value, dict) else value
