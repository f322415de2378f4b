"""Every kind that a spec can name here, with where it stands, what it does and what it takes.

Listing imports every kind and nothing heavier; a plugin that can't be used is listed with the
reason.
"""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic.fields import FieldInfo

import dppipe
from dppipe.component import Component, Options
from dppipe.errors import UsageError
from dppipe.spec.kinds.families import FAMILIES
from dppipe.spec.kinds.plugin_scan import scan_folder
from dppipe.spec.kinds.plugins import show_path
from dppipe.spec.kinds.registry import Registry
from dppipe.spec.messages.describe import describe_field, fields_by_key
from dppipe.spec.messages.suggestions import suggest_kind


@dataclass(frozen=True)
class OptionFacts:
    """One option of a kind."""

    name: str
    takes: str
    """What it expects, limits included: `a number > 0`."""
    required: bool
    default: Any
    """The default as plain data; nothing where the option is required or left out by default."""
    description: str


@dataclass(frozen=True)
class KindFacts:
    """One kind, or the reason why it can't be used."""

    block: str
    kind: str
    source: str
    """The file that defines it; for one that can't be used, what is known of the place stands in
    `problem`.
    """
    built_in: bool
    help: str
    options: tuple[OptionFacts, ...]
    problem: str = ""

    def to_data(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return asdict(self)


def list_kinds(registry: Registry, *, block: str | None = None) -> list[KindFacts]:
    """Return every kind, or those of the block that is named.

    They are in the order of a spec's blocks, then by name.

    Example:
        >>> from dppipe.plugin_kit import list_kinds
        >>> from dppipe.spec import Registry
        >>> [facts.kind for facts in list_kinds(Registry(), block="schedule")][:2]
        ['constant', 'cosine']
    """
    if block is not None and block not in FAMILIES:
        guess = suggest_kind(block, list(FAMILIES))
        raise UsageError(
            f"plugins list: expected one of {', '.join(FAMILIES)}, got {block!r}.{guess}"
        )
    blocks = FAMILIES if block is None else [block]
    return [_facts(registry, each, kind) for each in blocks for kind in registry.kinds(each)]


def unread_files(registry: Registry) -> tuple[str, ...]:
    """Return the plugin files that can't be read, each with the reason."""
    return scan_folder(registry.folder).unread if registry.folder else ()


def help_line(cls: type[Component]) -> str:
    """Return a kind's help: the first paragraph of its docstring, in one line."""
    return " ".join((cls.__doc__ or "").split("\n\n")[0].split())


def _facts(registry: Registry, block: str, kind: str) -> KindFacts:
    try:
        cls = registry.load(block, kind)
    except UsageError as error:
        return KindFacts(block, kind, "", False, "", (), problem=str(error))
    source, built_in = _source(cls)
    options = tuple(_option(name, field) for name, field in fields_by_key(cls).items())
    return KindFacts(block, kind, source, built_in, help_line(cls), options)


def _source(cls: type[Component]) -> tuple[str, bool]:
    file = Path(sys.modules[cls.__module__].__file__ or cls.__module__)
    package = Path(dppipe.__file__).parent
    if file.is_relative_to(package):
        return str(file.relative_to(package.parent)), True
    return show_path(file), False


def _option(name: str, field: FieldInfo) -> OptionFacts:
    required = field.is_required()
    default = (
        None
        if required
        else _plain(field.get_default(call_default_factory=True, validated_data={}))
    )
    return OptionFacts(name, describe_field(field), required, default, field.description or "")


def _plain(default: Any) -> Any:
    if isinstance(default, Component):
        return (
            default.to_data() if default.model_fields_set else default.kind
        )  # a bare name is short for a kind's defaults
    if isinstance(default, Options):
        return default.model_dump(mode="json", exclude_none=True, by_alias=True)
    if isinstance(default, (list, tuple)):
        return [_plain(value) for value in default]
    return (
        default if isinstance(default, (str, int, float, bool, dict, type(None))) else str(default)
    )
