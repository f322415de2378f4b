"""Starts a plugin: a file that works, its test and a spec that uses it, ready to be checked and run
before any edit.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Template

from dppipe.errors import UsageError
from dppipe.plugin_kit.starters import clipper, data, learner, model, optimizer, schedule
from dppipe.plugin_kit.starters.starter import Starter
from dppipe.spec.kinds.families import FAMILIES
from dppipe.spec.kinds.plugin_scan import DEFAULT_FOLDER
from dppipe.spec.kinds.plugins import show_path
from dppipe.spec.kinds.registry import Registry
from dppipe.spec.messages.suggestions import suggest_kind
from dppipe.spec.yaml.scalars import read_scalar
from dppipe.text_layout import shown_command

STARTERS: Mapping[str, Starter] = {
    "clipper": clipper.STARTER,
    "schedule": schedule.STARTER,
    "model": model.STARTER,
    "data": data.STARTER,
    "optimizer": optimizer.STARTER,
    "learner": learner.STARTER,
}
"""What can be started, by the word that asks for it."""


@dataclass(frozen=True)
class Written:
    """The files of a new plugin, and the options that a run needs to find it."""

    plugin: Path
    test: Path
    pipeline: Path
    options: tuple[str, ...]
    """The option that `dppipe run` needs: none for `plugins/` here, else `--plugins DIR`."""


def write_plugin(what: str, name: str, *, folder: Path | str = DEFAULT_FOLDER) -> Written:
    """Write a plugin into a folder, its test and its spec into `tests/plugins/` and `pipelines/`
    beside that folder.

    Example:
        >>> from dppipe.plugin_kit import write_plugin
        >>> written = write_plugin("schedule", "gentle")
        >>> written.plugin.name
        'gentle.py'
    """
    starter = STARTERS.get(what)
    if starter is None:
        guess = suggest_kind(what, list(STARTERS))
        raise UsageError(
            f"plugins new: expected one of {', '.join(STARTERS)}, got {what!r}.{guess}"
        )
    home = Path(folder).resolve()
    _require_name(name, starter, home)
    beside = home.parent
    usual = home == Path(DEFAULT_FOLDER).resolve()
    written = Written(
        plugin=home / f"{name}.py",
        test=beside / "tests" / "plugins" / f"test_{name}.py",
        pipeline=beside / "pipelines" / f"{name}.yaml",
        options=() if usual else ("--plugins", show_path(home)),
    )
    words = {
        "kind": name,
        "class_name": f"{''.join(part.capitalize() for part in name.split('_'))}{starter.suffix}",
        "block": starter.block,
        "noun": FAMILIES[starter.block].noun,
        "folder": home.name,
        "plugin_file": show_path(written.plugin),
        "check": shown_command("plugins", "check", show_path(written.plugin)),
        "run": shown_command("run", show_path(written.pipeline), *written.options),
    }
    _write(
        {
            written.plugin: Template(starter.plugin).substitute(words),
            written.test: Template(starter.full_test()).substitute(words),
            written.pipeline: Template(starter.pipeline()).substitute(words),
        }
    )
    return written


def _require_name(name: str, starter: Starter, home: Path) -> None:
    """Refuse names that can't be a file, a Python module and a value in YAML all at once, or that
    are taken.
    """
    family = FAMILIES[starter.block]
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,49}", name):
        raise UsageError(
            f"plugins new: expected a name of small letters, digits and `_`, got {name!r}. "
            "Choose another."
        )
    reserved = (
        keyword.iskeyword(name)
        or not isinstance(read_scalar(name).value, str)
        or name == "class_path"
    )
    if reserved:
        raise UsageError(
            f"plugins new: expected a name that Python and YAML leave free, got {name!r}. "
            "Choose another."
        )
    if name in Registry(home if home.is_dir() else None).kinds(starter.block):
        raise UsageError(
            f"plugins new: expected a new name, got {name!r}: {family.one} of that name is "
            "there. Choose another."
        )


def _write(files: Mapping[Path, str]) -> None:
    for file in files:
        if file.exists():
            raise UsageError(
                f"{show_path(file)}: expected a new file, got one that is there. Choose "
                "another name."
            )
    for file, text in files.items():
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("x", encoding="utf-8") as opened:
                opened.write(text)
        except OSError as error:
            place = show_path(file)
            raise UsageError(
                f"{place}: expected a place to write to, got: {error.strerror}. Choose another one."
            ) from error
