"""Plain data as YAML that `yaml_reader` reads back exactly: floats by their shortest exact form,
text quoted where it must be.
"""

from __future__ import annotations

from typing import Any

import yaml

from dppipe.spec.yaml.scalars import read_scalar


class _Dumper(yaml.SafeDumper):
    """Writes YAML 1.2: a string is quoted where it would be read as something else."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    plain = read_scalar(value)
    looks_like_text = isinstance(plain.value, str) and plain.fault is None
    # Only double quotes keep every character: the other styles fold some of YAML's line breaks.
    style = '"' if not value.isprintable() else None if looks_like_text else "'"
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def write_yaml(data: dict[str, Any]) -> str:
    """Write plain data, keys in their order."""
    return yaml.dump(
        data,
        Dumper=_Dumper,
        sort_keys=False,
        default_flow_style=None,
        width=120,
        allow_unicode=True,
    )
