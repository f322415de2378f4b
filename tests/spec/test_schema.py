"""The JSON schema: it accepts what loads, refuses what doesn't, and has the plugins; the reference page is current."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dppipe.spec import Registry, json_schema, spec_from_text
from dppipe.spec.kinds.families import FAMILIES
from dppipe.spec.reference import make_reference
from dppipe.spec.yaml.reader import read_yaml

_TYPES: dict[str, Any] = {
    "object": dict, "array": list, "string": str, "integer": int, "number": (int, float), "boolean": bool, "null": type(None),
}  # fmt: skip


def _is(value: Any, name: str) -> bool:
    return isinstance(value, _TYPES[name]) and not (
        isinstance(value, bool) and name in ("integer", "number")
    )


def _accepts(schema: dict[str, Any], value: Any, root: dict[str, Any]) -> bool:
    """The part of JSON schema that a spec's schema uses."""
    if "$ref" in schema and not _accepts(
        root["$defs"][schema["$ref"].rpartition("/")[2]], value, root
    ):
        return False
    if "type" in schema and not _is(value, schema["type"]):
        return False
    if ("const" in schema and value != schema["const"]) or (
        "enum" in schema and value not in schema["enum"]
    ):
        return False
    if "oneOf" in schema and sum(_accepts(part, value, root) for part in schema["oneOf"]) != 1:
        return False
    if "anyOf" in schema and not any(_accepts(part, value, root) for part in schema["anyOf"]):
        return False
    if (
        "exclusiveMinimum" in schema
        and isinstance(value, int | float)
        and value <= schema["exclusiveMinimum"]
    ):
        return False
    if isinstance(value, dict):
        known = schema.get("properties", {})
        if set(schema.get("required", ())) - set(value) or (
            schema.get("additionalProperties") is False and set(value) - set(known)
        ):
            return False
        return all(_accepts(known[key], item, root) for key, item in value.items() if key in known)
    return True


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    return json_schema()


def _set(base: str, *overrides: str) -> Any:
    spec = spec_from_text(base, overrides=overrides)
    return read_yaml(spec.to_yaml()).data


def test_the_schema_accepts_what_loads(schema: dict[str, Any], base: str) -> None:
    data = read_yaml(base).data
    assert _accepts(schema, data, schema)
    assert _accepts(schema, data | {"clipping": "layerwise", "budget": "none"}, schema)
    assert _accepts(
        schema, data | {"model": {"class_path": "my.Net", "init_args": {"a": 1}}}, schema
    )
    assert _accepts(schema, _set(base), schema)
    assert _accepts(schema, _set(base, "optimizer.schedule={kind: linear, warmup: 0.1}"), schema)


@pytest.mark.parametrize(
    "change",
    [
        {"clipping": "flatt"},
        {"clipping": {"kind": "flat", "max_grad_norm": 0}},
        {"clipping": {"kind": "flat", "max_grad_nrom": 1}},
        {"clipping": {"max_grad_norm": 1}},
        {"budget": "some"},
        {"version": 2},
        {"unknown": 1},
        {"optimizer": {"kind": "sgd", "lr": 0.1, "schedule": "warm"}},
    ],
)
def test_the_schema_refuses_what_does_not_load(
    change: dict[str, Any], schema: dict[str, Any], base: str
) -> None:
    assert not _accepts(schema, read_yaml(base).data | change, schema)


def test_the_schema_is_whole(schema: dict[str, Any]) -> None:
    text = repr(schema)
    assert "x-dppipe" not in text
    for block in FAMILIES:
        assert f"#/$defs/any-{block}" in text
        kinds = [
            schema["$defs"][part["$ref"].rpartition("/")[2]]
            for part in schema["$defs"][f"any-{block}"]["oneOf"]
            if "$ref" in part
        ]
        assert sorted(kind["properties"]["kind"]["const"] for kind in kinds) == Registry().kinds(
            block
        )


def test_the_schema_has_the_plugins_and_leaves_out_broken_ones(here: Path) -> None:
    (here / "plugins").mkdir()
    (here / "plugins" / "soft.py").write_text(
        "from dppipe import Clipper\nclass Flat(Clipper, kind='soft'):\n    '''Soft.'''\n    x: int\n"
    )
    (here / "plugins" / "torn.py").write_text(
        "from dppipe import Clipper\nclass T(Clipper, kind='torn'): ...\n1 / 0\n"
    )
    found = json_schema(Registry())
    kinds = [
        definition["properties"]["kind"]["const"]
        for definition in found["$defs"].values()
        if "kind" in definition.get("properties", {})
    ]
    assert "soft" in kinds
    assert "flat" in kinds
    assert "torn" not in kinds


def test_the_reference_page_is_current() -> None:
    """Write it anew with `python -m dppipe.spec.reference > docs/spec.md`."""
    page = Path(__file__).parents[2] / "docs" / "spec.md"
    assert page.read_text(encoding="utf-8") == make_reference()
