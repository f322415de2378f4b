"""From YAML files to a Spec, or to one error that says everything that is wrong with it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pydantic import ValidationError

from dppipe.errors import PrivacyRefusal, Problem, SpecError, UsageError
from dppipe.spec.alternatives import replace_alternatives
from dppipe.spec.kinds.registry import Registry
from dppipe.spec.located_paths import settle_paths
from dppipe.spec.messages.explain import explain
from dppipe.spec.messages.layout import Refusal, error_of
from dppipe.spec.named_files import file_problems
from dppipe.spec.numbers import find_extremes
from dppipe.spec.performance import gather_performance
from dppipe.spec.rules.between_blocks import check_rules
from dppipe.spec.spec import Spec
from dppipe.spec.tuning.candidates import candidate_problems
from dppipe.spec.tuning.rules import tune_problems
from dppipe.spec.yaml.files import SpecFiles, read_files
from dppipe.spec.yaml.source import Source, SpecFile, read_source


def load_spec(
    path: SpecFiles,
    *,
    overrides: Sequence[str] = (),
    plugins: Path | str | None = None,
    files: bool = False,
) -> Spec:
    """Read a spec; a SpecError says all its problems with their places, a PrivacyRefusal what
    can't be private.

    Args:
        path: the file, or several, each of which is laid over those before it.
        overrides: `KEY=VALUE` each, as `--set` takes them.
        plugins: the folder of plugin files; if not given, `plugins/` where the command runs.
        files: whether the files that the spec names are looked at, too, by their headers alone.

    Example:
        >>> from dppipe.spec import load_spec
        >>> spec = load_spec("pipelines/quickstart.yaml", overrides=["budget.epsilon=2"])
        >>> spec.budget.epsilon, spec.sampler.kind
        (2.0, 'poisson')
    """
    return _read(read_files(path), overrides=overrides, plugins=plugins, files=files)


@contextmanager
def placing_problems(path: SpecFiles, *, overrides: Sequence[str] = ()) -> Iterator[None]:
    """Add places in the spec to problems that are found after it was read.

    Such problems are in the files and classes that the spec names.
    """
    try:
        yield
    except (UsageError, PrivacyRefusal) as error:
        problems = _unplaced(error)
        if not problems:
            raise
        source = read_source(read_files(path), overrides=overrides)
        gathered = gather_performance(source.data)
        located = [source.locate(gathered.at_old_place(problem)) for problem in problems]
        raise error_of(located, files=source.files) from error


def find_hints(path: SpecFiles, *, overrides: Sequence[str] = ()) -> list[str]:
    """Return a line about each setting of a valid spec that has moved to another block, and about
    each that a later file or an override takes the place of.
    """
    source = read_source(read_files(path), overrides=overrides)
    lines = replace_alternatives(source)
    for hint in gather_performance(source.data).hints():
        place = source.locate(hint).problem.place
        lines.append(f"{place}: {'.'.join(map(str, hint.path))}: {hint.message}")
    return lines


def _unplaced(error: UsageError | PrivacyRefusal) -> list[Problem]:
    """Return the problems of an error that names keys of a spec but no place in it.

    Its text is like `data.path: expected ...`.
    """
    if isinstance(error, SpecError):
        return [] if any(problem.place for problem in error.problems) else list(error.problems)
    problem = problem_of(error)
    return [] if problem is None else [problem]


def problem_of(error: UsageError | PrivacyRefusal) -> Problem | None:
    """Return the problem of an error whose text begins with a key; None if it names none."""
    key, _, message = str(error).partition(": ")
    if key.startswith("accountant "):  # its kind follows: `accountant zcdp: no proof ...`
        key, _, kind = key.partition(" ")
        message = f"expected one with a proof, got {kind}: {message}"
    path = tuple(int(part) if part.isdecimal() else part for part in key.split("."))
    if path[0] not in Spec.model_fields:
        return None
    return Refusal(path, message) if isinstance(error, PrivacyRefusal) else Problem(path, message)


def spec_from_text(
    text: str,
    *,
    name: str = "spec.yaml",
    overrides: Sequence[str] = (),
    plugins: Path | str | None = None,
    files: bool = False,
) -> Spec:
    """Read a spec from YAML text; `name` stands for the file in messages.

    Example:
        >>> from pathlib import Path
        >>> from dppipe.spec import spec_from_text
        >>> spec_from_text(Path("pipelines/quickstart.yaml").read_text()).name
        'quickstart'
    """
    return _read([SpecFile(name, text)], overrides=overrides, plugins=plugins, files=files)


def _read(
    read: Sequence[SpecFile],
    *,
    overrides: Sequence[str],
    plugins: Path | str | None,
    files: bool,
) -> Spec:
    registry = Registry(plugins)
    source = read_source(read, overrides=overrides)
    if not source.readable:
        raise error_of(source.faults, files=source.files)
    return _check(source, registry, files=files)


def _check(source: Source, registry: Registry, *, files: bool) -> Spec:
    replace_alternatives(source)
    early = [*find_extremes(source.data), *settle_paths(source, registry)]
    faults = [*source.faults, *map(source.locate, early)]
    unread = [fault.problem.path for fault in faults]
    gathered = gather_performance(source.data)
    faults += [source.locate(problem) for problem in gathered.problems]
    try:
        spec = Spec.from_data(gathered.data, context=registry)
        problems = [] if unread else _rule_problems(spec, registry)
        if files:
            problems = list(dict.fromkeys([*problems, *file_problems(spec)]))
    except ValidationError as error:
        # Values that couldn't be read are reported already; errors that follow would confuse.
        problems = []
        for found in explain(error, gathered.data, registry=registry):
            problem = gathered.at_old_place(found)
            if not any(path and problem.path[: len(path)] == path for path in unread):
                problems.append(problem)
    located = [*faults, *map(source.locate, problems)]
    if located:
        raise error_of(located, files=source.files)
    return spec


def _rule_problems(spec: Spec, registry: Registry) -> list[Problem]:
    """Return the problems between blocks, then those of the candidates of a search."""
    problems = [*check_rules(spec), *tune_problems(spec)]
    return problems or list(candidate_problems(spec, registry))
