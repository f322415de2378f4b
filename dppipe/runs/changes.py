"""What was changed in a run's spec and plugins since it began, and whether that could change privacy."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dppipe.errors import PrivacyRefusal
from dppipe.runs.directory import RunDirectory
from dppipe.runs.origin import first_spec
from dppipe.spec.performance import gather_performance
from dppipe.spec.spec import committed_hash, data_hash, earlier_committed_hash
from dppipe.spec.yaml.reader import read_yaml

if TYPE_CHECKING:
    from dppipe.planning.plan import Plan
    from dppipe.spec.spec import Spec


def check_unchanged(spec: Spec, plan: Plan, run: RunDirectory, *, accept_changes: bool) -> None:
    """Refuse a run whose spec or plugins are not those that it began with, and say where they differ.

    Guarantee: what decides privacy is compared by the hashes that stand in the plan, from which the ledger's chain starts;
    `accept_changes` lets nothing pass but the optimizer and how, not how long, training is run. The
    `performance` block may change without it.
    """
    plugins = spec.plugin_files()
    if sorted(plugins.values()) != sorted(
        plan.plugins.values()
    ):  # the folder that they stand in may be another
        changed = next(
            (name for name, code in plugins.items() if code not in plan.plugins.values()),
            str(run.config),
        )
        raise PrivacyRefusal(
            f"{changed}: expected the code that the run began with, got another. {_ADVICE}"
        )
    if plan.committed_hash not in (committed_hash(spec), earlier_committed_hash(spec)):
        raise PrivacyRefusal(f"{_difference(spec, run)} That decides privacy. {_ADVICE}")
    if not accept_changes and _changed(spec, plan, run):
        raise PrivacyRefusal(
            f"{_difference(spec, run)} That costs no privacy: say --accept-changes to go on with it."
        )


def _changed(spec: Spec, plan: Plan, run: RunDirectory) -> bool:
    """Whether anything but the `performance` block was changed.

    A file that is byte by byte the one that was hashed is unchanged: an earlier version may have written it.
    """
    if hashlib.sha256(run.config.read_bytes()).hexdigest() == plan.spec_hash:
        return False
    before = _first_data(run)
    after = spec.to_data()
    if "performance" in before:
        after["performance"] = before["performance"]
    return data_hash(after) != plan.spec_hash


_ADVICE = "Put it back as it was, or start a new run."
_FREE = ("optimizer", "train", "performance")
"""Blocks that don't affect privacy, but for the length of training; differences elsewhere are reported first."""


def _difference(spec: Spec, run: RunDirectory) -> str:
    after = spec.to_data()
    changes = list(_changes(_first_data(run) or after, after))
    if not changes:
        return f"{run.config}: expected the spec that the run began with, got another."
    path, was, now = min(changes, key=lambda change: change[0][0] in _FREE)
    return f"{_place(run.config, path)}: {'.'.join(path)}: expected {was!r}, as the run began with, got {now!r}."


def _first_data(run: RunDirectory) -> dict[str, Any]:
    """Return the spec that the run began with as plain data; nothing where it isn't known."""
    data = gather_performance(read_yaml(first_spec(run) or "").data).data
    return data if isinstance(data, dict) else {}


def _changes(
    before: Any, after: Any, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for name in dict.fromkeys([*before, *after]):
            yield from _changes(before.get(name), after.get(name), (*path, str(name)))
    elif before != after:
        yield path, before, after


def _place(config: Path, path: tuple[str, ...]) -> str:
    """Give the line of a key, or of the block that it is missing from."""
    places = read_yaml(config.read_text(errors="replace")).values
    found = next(
        (places[path[:length]] for length in range(len(path), 0, -1) if path[:length] in places),
        None,
    )
    return str(config) if found is None else f"{config}:{found.line}:{found.column}"
