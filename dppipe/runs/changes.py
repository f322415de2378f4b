"""What changed in a run's spec and plugins since it began, and whether privacy depends on it."""

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
    """Refuse a run whose spec or plugins aren't those that it began with; say where they differ.

    Guarantees:
    - What decides privacy is compared by the hashes in the plan, with which the ledger's chain
      starts.
    - `accept_changes` accepts nothing but another optimizer and how, not how long, training is run.
    - The `performance` block may change without it.
    """
    _check_plugins(spec.plugin_files(), plan, run)
    if plan.committed_hash not in (committed_hash(spec), earlier_committed_hash(spec)):
        raise PrivacyRefusal(f"{_difference(spec, run)} That decides privacy. {_ADVICE}")
    if not accept_changes and _changed(spec, plan, run):
        raise PrivacyRefusal(
            f"{_difference(spec, run)} That costs no privacy: say --accept-changes to go on with "
            "it."
        )


def _check_plugins(plugins: Mapping[str, str], plan: Plan, run: RunDirectory) -> None:
    """Refuse plugin files whose code is another; the folder that they are in may differ."""
    known = plan.plugins.values()
    if sorted(plugins.values()) == sorted(known):
        return
    changed = str(run.config)
    for name, code in plugins.items():
        if code not in known:
            changed = name
            break
    raise PrivacyRefusal(
        f"{changed}: expected the code that the run began with, got another. {_ADVICE}"
    )


def _changed(spec: Spec, plan: Plan, run: RunDirectory) -> bool:
    """Return whether anything but the `performance` block was changed.

    A file that is byte by byte the one that was hashed is unchanged: an earlier version may have
    written it.
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
"""Blocks that don't affect privacy, except for the length of training.

Differences elsewhere are reported first.
"""


def _difference(spec: Spec, run: RunDirectory) -> str:
    after = spec.to_data()
    changes = list(_changes(_first_data(run) or after, after))
    if not changes:
        return f"{run.config}: expected the spec that the run began with, got another."
    path, was, now = min(changes, key=lambda change: change[0][0] in _FREE)
    place = f"{_place(run.config, path)}: {'.'.join(path)}"
    return f"{place}: expected {was!r}, as the run began with, got {now!r}."


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
    """Return the place of a key, or of the block that it is missing from."""
    places = read_yaml(config.read_text(errors="replace")).values
    for length in range(len(path), 0, -1):
        found = places.get(path[:length])
        if found is not None:
            return f"{config}:{found.line}:{found.column}"
    return str(config)
