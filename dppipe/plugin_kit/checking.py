"""Tries to break plugins: every kind of a file goes through the table of checks, and each line says
what was tried.

Nothing is charged and no ledger is written; plugin code runs in this process, as it does in a run.
A check that raises anything but a Fault has found one too. Read next: `checks/table.py`.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dppipe.component import Component
from dppipe.errors import DppipeError, UsageError
from dppipe.plugin_kit.checks.table import CHECKS, Check, Fault, Trial
from dppipe.plugin_kit.checks.variations import make_components
from dppipe.spec.kinds.families import FAMILIES
from dppipe.spec.kinds.plugin_scan import FoundKind, find_folder, scan_file
from dppipe.spec.kinds.plugins import find_line, hash_file, import_plugin, show_path
from dppipe.spec.kinds.registry import Registry, built_in_kinds
from dppipe.text_layout import shorten

NO_KIND = "none"
"""The family of a file that defines no kind."""


@dataclass(frozen=True)
class Outcome:
    """What one check found."""

    check: str
    ok: bool
    remark: str = ""
    """Why it failed, or something worth knowing."""


@dataclass(frozen=True)
class CheckedKind:
    """One kind of a file and what the checks found; a file that can't be read stands here without a
    kind.
    """

    file: str
    sha256: str
    block: str
    kind: str
    outcomes: tuple[Outcome, ...]

    @property
    def ok(self) -> bool:
        """Whether every check passed."""
        return all(outcome.ok for outcome in self.outcomes)

    @property
    def faults(self) -> list[str]:
        """What failed, each with its reason."""
        return [f"{outcome.check}: {outcome.remark}" for outcome in self.outcomes if not outcome.ok]

    def to_data(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return asdict(self) | {"ok": self.ok}


def check_folder(folder: Path | str | None = None) -> list[CheckedKind]:
    """Check every plugin of a folder; if none is named, of `plugins/` here.

    Files that define no kind are passed over.
    """
    found = find_folder(folder)
    files = (
        [file for file in sorted(found.glob("*.py")) if not file.name.startswith("_")]
        if found
        else []
    )
    checked = [kind for file in files for kind in check_file(file) if kind.block != NO_KIND]
    if not checked:
        raise UsageError(
            f"{folder or 'plugins'}: expected a folder with plugin files, got none. Start "
            "one: dppipe plugins new clipper NAME."
        )
    return checked


def check_file(file: Path | str, *, options: Mapping[str, Any] | None = None) -> list[CheckedKind]:
    """Check every kind that a plugin file defines; `options` take the place of defaults.

    Example:
        >>> from dppipe.plugin_kit import check_file
        >>> (checked,) = check_file("plugins/cooldown_schedule.py")
        >>> checked.kind, checked.ok
        ('cooldown', True)
    """
    path = Path(file)
    if not path.is_file():
        got = (
            f"a folder there. Say --plugins {file} for all of its files"
            if path.is_dir()
            else "nothing there. Fix the path"
        )
        raise UsageError(f"{file}: expected a plugin file, got {got}.")
    path = path.parent.resolve() / path.name
    title = "it can be read, and defines a kind"
    try:
        found = scan_file(path)
    except (OSError, SyntaxError, ValueError, RecursionError, UsageError) as error:
        return [_checked(path, "", "", [Outcome(title, False, _say(error, path, block=""))])]
    if not found:
        bases = ", ".join(family.base for family in FAMILIES.values() if family.takes_plugins)
        why = (
            'expected a class statement such as `class Mine(Clipper, kind="mine")`, got none. '
            f"Bases: {bases}."
        )
        return [_checked(path, NO_KIND, "", [Outcome(title, False, why)])]
    return [_check_found(kind, options or {}) for kind in found]


def _check_found(found: FoundKind, options: Mapping[str, Any]) -> CheckedKind:
    outcomes: list[Outcome] = []
    registry = Registry(found.file.parent)
    trial = _prepare(found, registry, outcomes, options=options)
    if trial is not None:
        outcomes += run_checks(trial)
    return _checked(found.file, found.block, found.kind, outcomes)


def registered_trial(
    block: str, kind: str, *, registry: Registry, variants: Sequence[Mapping[str, Any]] = ({},)
) -> Trial:
    """Return a trial of a kind that a registry has, a built-in one or a plugin's.

    Args:
        variants: Sets of options to try; limits are tried on top of the first.
    """
    cls = registry.load(block, kind)
    made = list(make_components(cls, registry=registry, options=variants[0]))
    for options in variants[1:]:
        made.append(cls.from_data(dict(options), context=registry))
    built_in = kind in built_in_kinds(FAMILIES[block])
    file = Path(sys.modules[cls.__module__].__file__ or "")
    return Trial(block, cls, file, registry, tuple(made), built_in=built_in)


def run_checks(trial: Trial) -> list[Outcome]:
    """Run the checks of every kind and those of the trial's family."""
    return [_run(check, trial) for check in all_checks() if check.block in ("any", trial.block)]


def all_checks() -> list[Check]:
    """Return the checks of every family; those of any kind come first."""
    # These modules import all others that register checks.
    from dppipe.plugin_kit.checks import any_kind, clipper_states, clipper_sums  # noqa: F401

    return sorted(CHECKS, key=lambda check: check.block != "any")


def _prepare(
    found: FoundKind, registry: Registry, outcomes: list[Outcome], *, options: Mapping[str, Any]
) -> Trial | None:
    """Load the kind and make components of it, as far as that goes."""
    for title, step in (
        ("it loads", lambda: import_plugin(found.file)),
        ("its name is free", lambda: registry.load(found.block, found.kind)),
    ):
        try:
            step()
        except UsageError as error:
            outcomes.append(Outcome(title, False, str(error)))
            return None
        outcomes.append(Outcome(title, True))
    cls = getattr(import_plugin(found.file), found.class_name, None)
    title = "it can be made with its defaults and with options at their limits"
    try:
        if not (isinstance(cls, type) and issubclass(cls, Component)):
            raise Fault(f"expected the class {found.class_name}, got another thing of that name.")
        made = make_components(cls, registry=registry, options=options)
    except (Exception, SystemExit) as error:
        outcomes.append(Outcome(title, False, _say(error, found.file, block=found.block)))
        return None
    outcomes.append(Outcome(title, True, str(len(made))))
    return Trial(found.block, cls, found.file, registry, made)


def _run(check: Check, trial: Trial) -> Outcome:
    import torch

    try:
        with warnings.catch_warnings(), torch.random.fork_rng(devices=[]):
            warnings.simplefilter("ignore")
            torch.manual_seed(0)
            return Outcome(check.title, True, check.run(trial) or "")
    except (Exception, SystemExit) as error:
        return Outcome(check.title, False, _say(error, trial.file, block=trial.block))


def _say(error: BaseException, file: Path, *, block: str) -> str:
    """Say what went wrong; what data code raises may hold a record's value, so only its type and
    place are said.
    """
    notes = "".join(f" {note}" for note in getattr(error, "__notes__", ()) if note)
    line = find_line(error, file)
    place = f"{show_path(file)}:{line}: " if line else ""
    if isinstance(error, (Fault, DppipeError)):
        return f"{place}{error}{notes}"
    text = "" if block == "data" else f": {error.msg if isinstance(error, SyntaxError) else error}"
    said = " ".join(f"{place}{type(error).__name__}{text}".split())
    return shorten(said, 300) + notes


def _checked(file: Path, block: str, kind: str, outcomes: list[Outcome]) -> CheckedKind:
    return CheckedKind(show_path(file), hash_file(file), block, kind, tuple(outcomes))
