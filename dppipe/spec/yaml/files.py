"""The files of a spec, read as text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dppipe.errors import UsageError
from dppipe.spec.yaml.document import MAX_BYTES
from dppipe.spec.yaml.source import SpecFile

SpecFiles = Path | str | Sequence[Path | str]
"""The file of a spec, or several that are laid over each other from left to right."""


def spec_paths(files: SpecFiles) -> list[Path]:
    """Return the paths of a spec's files."""
    if isinstance(files, str | Path):
        return [Path(files)]
    return [Path(file) for file in files]


def split_files(text: str | Path) -> list[Path]:
    """Return the files of a spec that one word names: `base.yaml+cluster.yaml`.

    For commands where several words are several specs. A file of that very name comes first.
    """
    whole = Path(text)
    if whole.exists():
        return [whole]
    return [Path(part) for part in str(text).split("+") if part]


def spec_name(files: SpecFiles) -> str:
    """Return the files of a spec as messages name them: `base.yaml + cluster.yaml`."""
    return " + ".join(map(str, spec_paths(files)))


def read_files(files: SpecFiles) -> list[SpecFile]:
    """Read the files of a spec; one error names all that can't be read."""
    read = []
    faults = []
    for path in spec_paths(files):
        try:
            read.append(SpecFile(str(path), _read_text(path), path.parent))
        except UsageError as error:
            faults.append(str(error))
    if faults:
        raise UsageError("\n".join(faults))
    if not read:
        raise UsageError("expected a spec file, got none. Give the path of a YAML file.")
    return read


def _read_text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        # Of a file that is too large anyway, the last character may be torn.
        return content.decode(
            "utf-8-sig", errors="replace" if len(content) > MAX_BYTES else "strict"
        )
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise UsageError(
            f"{path}:{line}: expected UTF-8 text, got other bytes. Save the file as UTF-8."
        ) from error
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        advice = "Give the path of a YAML file."
        if "=" in path.name:
            advice = f"Write --set {path} to override a value."
        raise UsageError(f"{path}: expected a spec file, got: {reason}. {advice}") from error
