"""What a shell completes: kinds, recipes, and the keys that `--set` takes; files are its own task.

Nothing here imports torch. A mistake on the command line completes nothing: the command itself says
what is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

import typer

from dppipe.errors import DppipeError

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from dppipe.component import Options
    from dppipe.spec.kinds.registry import Registry

_USUAL = {"learner": "dp_sgd", "clipping": "flat", "noise": "constant", "accountant": "pld"}
"""The kind of each block that a spec may leave out."""


def complete_accountants(incomplete: str) -> list[str]:
    """Complete the name of an accountant, or `all`."""
    from dppipe.privacy.support import ACCOUNTANTS

    return _beginning([*ACCOUNTANTS, "all"], incomplete)


def complete_samplers(incomplete: str) -> list[str]:
    """Complete the kind of a sampler."""
    from dppipe.spec.kinds.families import FAMILIES
    from dppipe.spec.kinds.registry import built_in_kinds

    return _beginning(built_in_kinds(FAMILIES["sampler"]), incomplete)


def complete_recipes(incomplete: str) -> list[str]:
    """Complete the name of a recipe."""
    from dppipe.cli.recipe_files import find_recipes

    return _beginning([recipe.name for recipe in find_recipes()], incomplete)


def complete_overrides(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete a key of the spec on the command line and, of kinds and choices, its value."""
    from dppipe.spec.kinds.registry import Registry

    given = ctx.params
    files = given.get("spec_path") or given.get("spec") or given.get("target") or []
    try:
        registry = Registry(given.get("plugins"))
        keys = dict(_keys(_data_of(files), registry))
    except (DppipeError, OSError):
        return []
    key, equals, value = incomplete.partition("=")
    if equals:
        return [f"{key}={choice}" for choice in _beginning(keys.get(key, []), value)]
    return [f"{name}=" for name in _beginning(list(keys), incomplete)]


def _beginning(names: list[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


def _data_of(files: Any) -> dict[str, Any]:
    from dppipe.spec.yaml.files import read_files
    from dppipe.spec.yaml.source import read_source

    try:
        data = read_source(read_files(files)).data
    except DppipeError:
        return {}
    return data if isinstance(data, dict) else {}


def _keys(data: dict[str, Any], registry: Registry) -> Iterator[tuple[str, list[str]]]:
    """Yield each key that a spec of these kinds can have, with the values it has to choose from."""
    from dppipe.spec.component_field import ComponentOf
    from dppipe.spec.messages.describe import find_in_type, options_in_type
    from dppipe.spec.spec import Spec

    for name, field in Spec.model_fields.items():
        mark = find_in_type(ComponentOf, field.annotation, field.metadata)
        blocks = options_in_type(field.annotation)
        if mark is not None:
            yield f"{name}.kind", registry.kinds(mark.block)
            cls = _class_of(data.get(name, _USUAL.get(name)), mark.block, registry)
            if cls is not None:
                yield from _options(name, cls)
        elif blocks:
            yield from _options(name, blocks[0])
        else:
            yield name, _choices(field)


def _class_of(block: Any, family: str, registry: Registry) -> type[Options] | None:
    from pydantic import ValidationError

    from dppipe.spec.component_field import split_kind

    try:
        return registry.load(family, split_kind(family, block)[0])
    except (DppipeError, ValidationError):
        return None


def _options(name: str, block: type[Options]) -> Iterator[tuple[str, list[str]]]:
    from dppipe.spec.messages.describe import fields_by_key

    for key, field in fields_by_key(block).items():
        yield f"{name}.{key}", _choices(field)


def _choices(field: FieldInfo) -> list[str]:
    if field.annotation is bool:
        return ["true", "false"]
    if get_origin(field.annotation) is Literal:
        return [str(choice) for choice in get_args(field.annotation)]
    return []
