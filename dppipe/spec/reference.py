"""The reference of the spec, written from the types: `python -m dppipe.spec.reference >
docs/spec.md`.

A test keeps the page current, so no default and no limit is written in prose anywhere.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from typing import Any

from pydantic.fields import FieldInfo

from dppipe.component import Component, Options
from dppipe.privacy.budget import Budget
from dppipe.spec.kinds.families import FAMILIES, Family
from dppipe.spec.kinds.registry import built_in_kinds, load_built_in
from dppipe.spec.messages.describe import describe_field, fields_by_key, options_in_type
from dppipe.spec.performance import OLD_BLOCKS, Performance
from dppipe.spec.spec import Spec
from dppipe.spec.train import Train
from dppipe.spec.tuning.tune import Range, RepetitionOptions, ScoreOptions, Tune

_HEAD = """\
# The spec

One YAML file describes a whole run. This page is written from the types
(`python -m dppipe.spec.reference > docs/spec.md`); `dppipe schema` prints the same for editors,
plugins included, and `dppipe validate` checks a file against it.

- A component is a block with `kind` and that kind's options. A bare name is short for
  `{kind: name}`; where a family has the kind `class_path`, `class_path: package.module.Class` with
  `init_args` names a class of your own.
- Unknown keys, wrong types and contradictions are errors with their line and column; all of them
  are reported at once.
- YAML 1.2: `1e-5` is a number; `yes`, `no`, `on` and `off` are text. Repeated keys, tags, anchors,
  aliases, integers with leading zeros and numbers that aren't finite are refused.
- `--set clipping.max_grad_norm=0.5` overrides one value, `--set 'clipping={kind: layerwise}'` a
  whole block.
"""

_BLOCKS: dict[str, type[Options]] = {
    "budget": Budget,
    "train": Train,
    "performance": Performance,
    "tune": Tune,
    "tune.repetitions": RepetitionOptions,
    "tune.score": ScoreOptions,
    "tune.candidates.ranges": Range,
}

_INSIDE = {
    "schedule": " (inside `optimizer`, `sampler.batch_schedule` and `clipping.bound_schedule`)",
    "averaging": " (inside `optimizer`)",
    "loss": " (inside `train`)",
}


def make_reference() -> str:
    """Write the reference of every built-in kind."""
    lines = [_HEAD, "## The blocks", "", *_table(fields_by_key(Spec)), ""]
    for name, block in _BLOCKS.items():
        lines += [f"## {name}", "", _first_sentence(block), "", *_table(fields_by_key(block)), ""]
    old = [f"`{place}.{key}`" for key, place in OLD_BLOCKS.items()]
    lines += [f"These settings also work in their old places, with a hint: {', '.join(old)}.", ""]
    for family in FAMILIES.values():
        lines += _family(family)
    return "\n".join(lines).rstrip() + "\n"


def _family(family: Family) -> Iterator[str]:
    base: type[Component] = getattr(importlib.import_module(f"{family.package}.base"), family.base)
    shared = _own_fields(family, base)
    inside = _INSIDE.get(family.block, "")
    yield from (f"## {family.block}{inside}", "", _first_sentence(base), "")
    if shared:
        yield from ("Every kind takes:", "", *_table(shared), "")
        yield from _nested(shared)
    for kind in built_in_kinds(family):
        cls = load_built_in(family, kind)
        own = {
            key: field
            for key, field in _own_fields(family, cls).items()
            if key not in shared or _differs(field, shared[key])
        }
        yield from (f"### {family.block}: {kind}", "", _first_sentence(cls), "")
        if own:
            yield from (*_table(own), "")
            yield from _nested(own)


def _own_fields(family: Family, cls: type[Component]) -> dict[str, FieldInfo]:
    """Return the options of a kind without those that have moved to `performance`."""
    fields = fields_by_key(cls)
    return {key: fields[key] for key in fields if OLD_BLOCKS.get(key) != family.block}


def _nested(fields: dict[str, FieldInfo]) -> Iterator[str]:
    for key, field in fields.items():
        for block in options_in_type(field.annotation):
            if not issubclass(block, Component):
                yield from (
                    f"`{key}`: {_first_sentence(block)}",
                    "",
                    *_table(fields_by_key(block)),
                    "",
                )


def _table(fields: dict[str, FieldInfo]) -> Iterator[str]:
    yield from ("| key | takes | default | |", "|---|---|---|---|")
    for key, field in fields.items():
        cells = (f"`{key}`", describe_field(field), _default(field), field.description or "")
        yield f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    default: Any = field.get_default(call_default_factory=True, validated_data={})
    if default is None or default == {} or default == ():
        return ""
    if isinstance(default, Component):
        return f"`{default.kind}`"
    if isinstance(default, Options):
        return "see below"
    return f"`{default or repr('') if isinstance(default, str) else json.dumps(default)}`"


def _differs(field: FieldInfo, other: FieldInfo) -> bool:
    return (describe_field(field), _default(field)) != (describe_field(other), _default(other))


def _first_sentence(block: type[Options]) -> str:
    return " ".join((block.__doc__ or "").split("\n\n")[0].split())


if __name__ == "__main__":
    sys.stdout.write(make_reference())
