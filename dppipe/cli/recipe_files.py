"""The recipes that come with dppipe, and copies of them that run where they are put.

A wheel has them in `dppipe/shipped/`; in the repository they are `pipelines/` and `plugins/`.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dppipe
from dppipe.errors import UsageError
from dppipe.spec.kinds.plugin_scan import DEFAULT_FOLDER, scan_folder
from dppipe.spec.messages.suggestions import suggest_kind
from dppipe.spec.yaml.reader import read_yaml
from dppipe.text_layout import shown_command

_PIPELINES = "pipelines"


@dataclass(frozen=True)
class Recipe:
    """A spec that comes with dppipe."""

    name: str
    """Its path below `pipelines/`, without the ending: `recipes/poisson`."""
    file: Path
    about: str
    """The first sentence of the comment that it begins with."""


@dataclass(frozen=True)
class Copied:
    """The files of a copy, and the option that a command needs to find its plugin."""

    spec: Path
    others: tuple[Path, ...]
    options: tuple[str, ...]


def find_recipes() -> list[Recipe]:
    """Return all recipes, the quickstart first."""
    folder = _root() / _PIPELINES
    files = sorted(folder.rglob("*.yaml"), key=lambda file: (file.parent != folder, file))
    return [_recipe(file, folder) for file in files]


def copy_recipe(name: str, *, folder: Path) -> Copied:
    """Copy a recipe, the files that it names and the plugin that it uses into a folder.

    Paths in the copy are those of the new files, as seen from the working directory. A file that is
    there already is never overwritten: then nothing is written.
    """
    recipe = _find(name)
    spec = folder / recipe.file.name
    text = recipe.file.read_text(encoding="utf-8")
    new: dict[Path, bytes] = {}
    for file in _named_files(text):
        target = folder / file.parent.name / file.name
        text = text.replace(file.relative_to(_root()).as_posix(), _yaml_word(target))
        new[target] = file.read_bytes()
    options: tuple[str, ...] = ()
    for file in _plugins(text):
        target = folder / DEFAULT_FOLDER / file.name
        text = text.replace(f"{DEFAULT_FOLDER}/{file.name}", shlex.quote(str(target)))
        new[target] = file.read_bytes()
        if folder.resolve() != Path.cwd().resolve():
            options = ("--plugins", str(folder / DEFAULT_FOLDER))
    old = f"{_PIPELINES}/{recipe.name}.yaml"  # only comments name it
    text = text.replace(shown_command("run", old), shown_command("run", spec, *options))
    new[spec] = text.replace(old, shlex.quote(str(spec))).encode()
    _write(new)
    return Copied(spec, tuple(path for path in new if path != spec), options)


def _root() -> Path:
    package = Path(dppipe.__file__).parent
    shipped = package / "shipped"
    return shipped if shipped.is_dir() else package.parent


def _recipe(file: Path, folder: Path) -> Recipe:
    words: list[str] = []
    for line in file.read_text(encoding="utf-8").splitlines():
        if not line.startswith("# ") or line.startswith("#   "):
            break
        words += line.removeprefix("# ").split()
        if words[-1].endswith("."):
            break
    about = " ".join(words)
    sentence, end, _ = about.partition(". ")
    return Recipe(
        name=file.relative_to(folder).with_suffix("").as_posix(),
        file=file,
        about=f"{sentence}." if end else about,
    )


def _find(name: str) -> Recipe:
    """Return a recipe by its name, or by the last part of it where only one has that."""
    wanted = name.removeprefix(f"{_PIPELINES}/").removesuffix(".yaml")
    recipes = find_recipes()
    found = [recipe for recipe in recipes if recipe.name == wanted]
    found = found or [recipe for recipe in recipes if recipe.file.stem == wanted]
    if len(found) == 1:
        return found[0]
    if found:
        names = " and ".join(recipe.name for recipe in found)
        raise UsageError(f"recipes copy: expected one recipe, got {name!r}: {names}. Say which.")
    known = [recipe.name for recipe in recipes] + [recipe.file.stem for recipe in recipes]
    raise UsageError(
        f"recipes copy: no recipe named {name!r}. `dppipe recipes list` shows all of them."
        f"{suggest_kind(wanted, known)}"
    )


def _yaml_word(path: Path) -> str:
    """Return a path as a value of YAML, in quotes unless it has plain characters alone."""
    plain = re.fullmatch(r"[\w./-][\w./ -]*", str(path), re.ASCII) is not None
    return str(path) if plain else json.dumps(str(path))


def _named_files(text: str) -> Iterator[Path]:
    """Yield the files beside the recipes that a recipe's values name."""
    waiting: list[Any] = [read_yaml(text).data]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, list):
            waiting += reversed(value)
        elif isinstance(value, str) and value.startswith(f"{_PIPELINES}/"):
            file = _root() / value
            if file.is_file():
                yield file


def _plugins(text: str) -> Iterator[Path]:
    """Yield the plugin files whose kinds a recipe uses."""
    data = read_yaml(text).data
    for found in scan_folder(_root() / DEFAULT_FOLDER).kinds:
        block = data.get(found.block)
        kind = block.get("kind") if isinstance(block, dict) else block
        if kind == found.kind:
            yield found.file


def _write(new: dict[Path, bytes]) -> None:
    for path, content in new.items():
        if path.exists() and path.read_bytes() != content:
            raise UsageError(
                f"{path}: expected a new file, got one that is there. Move it away, or choose "
                "another folder with --to DIR."
            )
    for path, content in new.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
