"""What changed in a run's spec and plugins since it began, and whether privacy depends on it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dppipe.errors import PrivacyRefusal
from dppipe.runs.directory import RunDirectory
from dppipe.runs.origin import first_spec
from dppipe.spec.spec import committed_hash, spec_hash
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
    """
    _check_plugins(spec.plugin_files(), plan, run)
    if committed_hash(spec) != plan.committed_hash:
        raise PrivacyRefusal(f"{_difference(spec, run)} That decides privacy. {_ADVICE}")
    if spec_hash(spec) != plan.spec_hash and not accept_changes:
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


_ADVICE = "Put it back as it was, or start a new run."
_FREE = ("optimizer", "train")
"""Blocks that don't affect privacy; differences elsewhere are reported first."""


def _difference(spec: Spec, run: RunDirectory) -> str:
    before = read_yaml(first_spec(run) or "").data
    after = spec.to_data()
    changes = list(_changes(before if isinstance(before, Mapping) else after, after))
    if not changes:
        return f"{run.config}: expected the spec that the run began with, got another."
    path, was, now = min(changes, key=lambda change: change[0][0] in _FREE)
    place = f"{_place(run.config, path)}: {'.'.join(path)}"
    return f"{place}: expected {was!r}, as the run began with, got {now!r}."


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
