"""From a YAML file to a Spec, or to one error that says everything that is wrong with it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from dppipe.errors import UsageError
from dppipe.spec.explain import explain
from dppipe.spec.layout import error_of
from dppipe.spec.numbers import find_extremes
from dppipe.spec.registry import Registry
from dppipe.spec.rules import check_rules
from dppipe.spec.source import Source, read_source
from dppipe.spec.spec import Spec
from dppipe.spec.yaml_reader import MAX_BYTES


def load_spec(path: Path | str, *, overrides: Sequence[str] = (), plugins: Path | str | None = None) -> Spec:
    """Read a spec file; a SpecError says all its problems with their places, a PrivacyRefusal what can't be private.

    Args:
        overrides: `KEY=VALUE` each, as `--set` takes them.
        plugins: the folder of plugin files; if not given, `plugins/` where the command runs.
    """
    try:
        with Path(path).open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        # Of a file that is too large anyway, the last character may be torn.
        text = content.decode("utf-8-sig", errors="replace" if len(content) > MAX_BYTES else "strict")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise UsageError(f"{path}:{line}: expected UTF-8 text, got other bytes. Save the file as UTF-8.") from error
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"{path}: expected a spec file, got: {reason}. Give the path of a YAML file.") from error
    return spec_from_text(text, name=str(path), overrides=overrides, plugins=plugins)


def spec_from_text(
    text: str, *, name: str = "spec.yaml", overrides: Sequence[str] = (), plugins: Path | str | None = None
) -> Spec:
    """Read a spec from YAML text; `name` stands for the file in messages."""
    registry = Registry(plugins)
    source = read_source(text, name=name, overrides=overrides)
    if not source.document.readable:
        raise error_of(source.faults, text=text)
    return _check(source, registry)


def _check(source: Source, registry: Registry) -> Spec:
    faults = [*source.faults, *map(source.locate, find_extremes(source.data))]
    unread = [found.problem.path for found in faults]
    try:
        spec = Spec.from_data(source.data, context=registry)
        problems = [] if unread else check_rules(spec)
    except ValidationError as error:
        # What couldn't be read is said already; what follows from it would only confuse.
        problems = [
            problem
            for problem in explain(error, source.data, registry=registry)
            if not any(path and problem.path[: len(path)] == path for path in unread)
        ]
    located = [*faults, *map(source.locate, problems)]
    if located:
        raise error_of(located, text=source.document.text)
    return spec
