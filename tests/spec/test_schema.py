"""The JSON schema: it accepts what loads, refuses what doesn't, and has the plugins; the reference page is current."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from dppipe.spec import Registry, json_schema, spec_from_text
from dppipe.spec.kinds.families import FAMILIES
from dppipe.spec.reference import make_reference
from dppipe.spec.yaml.reader import read_yaml


def _accepts(schema: dict[str, Any], value: Any) -> bool:
    return Draft202012Validator(schema).is_valid(value)


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    return json_schema()


def _set(base: str, *overrides: str) -> Any:
    spec = spec_from_text(base, overrides=overrides)
    return read_yaml(spec.to_yaml()).data


def test_the_schema_accepts_what_loads(schema: dict[str, Any], base: str) -> None:
    data = read_yaml(base).data
    assert _accepts(schema, data)
    assert _accepts(schema, data | {"clipping": "layerwise", "budget": "none"})
    assert _accepts(schema, data | {"model": {"class_path": "my.Net", "init_args": {"a": 1}}})
    assert _accepts(schema, _set(base))
    assert _accepts(schema, _set(base, "optimizer.schedule={kind: linear, warmup: 0.1}"))


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
    assert not _accepts(schema, read_yaml(base).data | change)


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
        definition["properties"]["kind"].get("const")  # a block inside others may have several
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
