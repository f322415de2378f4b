"""What was changed in a run's spec and plugins since it began, and whether that could change privacy."""

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
    """Refuse a run whose spec or plugins are not those that it began with, and say where they differ.

    Guarantee: what decides privacy is compared by the hashes that stand in the plan, from which the ledger's chain starts;
    `accept_changes` lets nothing pass but the optimizer and how, not how long, training is run.
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
    if committed_hash(spec) != plan.committed_hash:
        raise PrivacyRefusal(f"{_difference(spec, run)} That decides privacy. {_ADVICE}")
    if spec_hash(spec) != plan.spec_hash and not accept_changes:
        raise PrivacyRefusal(
            f"{_difference(spec, run)} That costs no privacy: say --accept-changes to go on with it."
        )


_ADVICE = "Put it back as it was, or start a new run."
_FREE = ("optimizer", "train")
"""The blocks in which a change may cost nothing: what stands in others is told first."""


def _difference(spec: Spec, run: RunDirectory) -> str:
    before = read_yaml(first_spec(run) or "").data
    after = spec.to_data()
    changes = list(_changes(before if isinstance(before, Mapping) else after, after))
    if not changes:
        return f"{run.config}: expected the spec that the run began with, got another."
    path, was, now = min(changes, key=lambda change: change[0][0] in _FREE)
    return f"{_place(run.config, path)}: {'.'.join(path)}: expected {was!r}, as the run began with, got {now!r}."


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
