"""The part of JSON schema that a spec's schema uses, so that options can be held against it without
another library.
"""

from __future__ import annotations

from typing import Any

_TYPES: dict[str, tuple[type, ...]] = {
    "array": (list,),
    "boolean": (bool,),
    "integer": (int,),
    "null": (type(None),),
    "number": (int, float),
    "object": (dict,),
    "string": (str,),
}
_LIMITS: dict[str, Any] = {
    "exclusiveMinimum": lambda value, limit: value > limit,
    "minimum": lambda value, limit: value >= limit,
    "exclusiveMaximum": lambda value, limit: value < limit,
    "maximum": lambda value, limit: value <= limit,
}


def misfit(
    schema: dict[str, Any], value: Any, *, root: dict[str, Any], path: str = ""
) -> str | None:
    """Say where and why a value doesn't fit a schema; nothing if it does."""
    where = path or "it"
    if "$ref" in schema:
        target = root["$defs"][schema["$ref"].rpartition("/")[2]]
        return misfit(target, value, root=root, path=path)
    for word in ("oneOf", "anyOf"):
        if word in schema:
            fits = [misfit(part, value, root=root, path=path) for part in schema[word]]
            if not any(each is None for each in fits) or (word == "oneOf" and fits.count(None) > 1):
                return (
                    _closest(fits, schema[word], value, root=root)
                    or f"{where} fits {fits.count(None)} of {len(fits)} forms"
                )
    if "type" in schema and not _is(value, schema["type"]):
        return f"{where} is no {schema['type']}"
    if ("const" in schema and value != schema["const"]) or (
        "enum" in schema and value not in schema["enum"]
    ):
        return f"{where} is none of the values allowed"
    for word, holds in _LIMITS.items():
        if word in schema and isinstance(value, (int, float)) and not holds(value, schema[word]):
            return f"{where} breaks the limit {word} {schema[word]}"
    return _inside(schema, value, root=root, path=path)


def _inside(schema: dict[str, Any], value: Any, *, root: dict[str, Any], path: str) -> str | None:
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        found = (
            misfit(schema["items"], item, root=root, path=f"{path}[{i}]")
            for i, item in enumerate(value)
        )
        return next((fault for fault in found if fault), None)
    if not isinstance(value, dict):
        return None
    known: dict[str, Any] = schema.get("properties", {})
    missing = set(schema.get("required", ())) - set(value)
    unknown = set(value) - set(known) if schema.get("additionalProperties") is False else set()
    if missing or unknown:
        return (
            f"{path or 'it'} lacks {sorted(missing)}"
            if missing
            else f"{path or 'it'} has unknown keys {sorted(unknown)}"
        )
    found = (
        misfit(known[key], item, root=root, path=f"{path}.{key}".strip("."))
        for key, item in value.items()
        if key in known
    )
    return next((fault for fault in found if fault), None)


def _closest(
    fits: list[str | None], parts: list[dict[str, Any]], value: Any, *, root: dict[str, Any]
) -> str | None:
    """Return the fault of the form that the value's kind names; the other forms don't apply."""
    kind = value.get("kind") if isinstance(value, dict) else None
    for fault, part in zip(fits, parts, strict=True):
        target = root["$defs"][part["$ref"].rpartition("/")[2]] if "$ref" in part else part
        if fault and target.get("properties", {}).get("kind", {}).get("const") == kind is not None:
            return fault
    return None


def _is(value: Any, name: str) -> bool:
    return isinstance(value, _TYPES[name]) and not (
        isinstance(value, bool) and name in ("integer", "number")
    )
