"""The planted bugs: one YAML file a class, each bug a short text of the package and what stands there instead."""

from __future__ import annotations

import shutil
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
FOLDER = Path(__file__).parent / "planted"
AT_THE_TOP = {".git", ".venv", "runs", ".dppipe", ".hypothesis"}
"""What a copy of the repository leaves out; the packages have folders of these names too."""


@dataclass(frozen=True)
class Bug:
    """One planted bug."""

    id: str
    kind: str
    """The name of the file that lists it."""
    file: str
    old: str
    """A text that stands in the file exactly once."""
    new: str
    breaks: str
    """What goes wrong with it."""
    tests: tuple[str, ...]
    """Paths of tests, the likeliest to see it first; each entry is one run, of one path or several."""

    def plant(self, root: Path) -> None:
        """Write the bug into a copy of the repository."""
        path = root / self.file
        text = path.read_text()
        found = text.count(self.old)
        if found != 1:
            raise ValueError(
                f"{self.id}: expected its old text once in {self.file}, got it {found} times."
            )
        path.write_text(text.replace(self.old, self.new))


def read_bugs() -> list[Bug]:
    """Return all bugs, class by class."""
    found = []
    for path in sorted(FOLDER.glob("*.yaml")):
        for entry in yaml.safe_load(path.read_text()):
            tests = tuple(entry.pop("tests"))
            found.append(Bug(kind=path.stem, tests=tests, **entry))
    return found


def copy_tree(place: Path) -> Path:
    """Copy the repository, without what tests don't need."""
    caches = shutil.ignore_patterns("__pycache__", ".*_cache")

    def left_out(folder: str, names: list[str]) -> Collection[str]:
        top = AT_THE_TOP if Path(folder) == ROOT else set()
        return {*caches(folder, names), *top.intersection(names)}

    return Path(shutil.copytree(ROOT, place / "dppipe", ignore=left_out))
