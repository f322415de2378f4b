"""`dppipe tune --on`: settings that were found on public records, for one private run."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from dppipe.cli.printing.wrapping import fit_terminal
from dppipe.cli.spec_file import read_spec
from dppipe.errors import UsageError
from dppipe.runs.directory import write_whole
from dppipe.text_layout import shown_command

if TYPE_CHECKING:
    from dppipe.pipeline.tuning.on_public import PublicScore


def refuse_other_options(on: Path | None, *, run_dir: Path | None) -> Path:
    """Return the other spec; refuse options that go with another way of tuning."""
    if on is None:
        raise UsageError(
            "--output: expected none without --on, whose settings it is for, got a file. Leave it "
            "out, or add --on."
        )
    if run_dir is not None:
        raise UsageError(
            f"--run-dir: expected none with --on, which leaves a spec and no run, got {run_dir}. "
            "Name the spec's file by --output."
        )
    return on


def tune_on(
    spec_path: list[Path],
    other_path: Path,
    *,
    overrides: Sequence[str] | None,
    plugins: Path | None,
    output: Path | None,
    as_json: bool,
) -> None:
    """Try every candidate on public records, and write the spec of one private run."""
    from dppipe.pipeline.tuning.on_public import best_score, public_runs, score_runs, tuned_spec
    from dppipe.spec.kinds.registry import Registry
    from dppipe.spec.yaml.files import spec_name

    own = spec_name(spec_path)
    spec = read_spec(spec_path, overrides=overrides, plugins=plugins)
    other = read_spec([other_path], plugins=plugins)
    if spec.tune is None:
        raise UsageError(f"{own}: expected a spec with a tune block, got one without.")
    place = output or Path(f"{spec_path[-1].stem}.tuned.yaml")
    _refuse_written(place)
    registry = Registry(plugins)
    metric = spec.tune.score.metric
    runs = public_runs(spec, other, registry=registry)
    if not as_json:
        _say(
            f"{spec.name}: {len(runs)} candidates on the public records of {other_path}, by "
            f"{metric}. No record of {own} is read, and its budget stays whole."
        )
    scores: list[PublicScore] = []
    for one in score_runs(runs, metric=metric):
        scores.append(one)
        if not as_json:
            _say(f"{_shown(one, metric)}  {_settings(one)}")
    best = best_score(scores)
    made = tuned_spec(spec, best, registry=registry)
    header = f"# {_settings(best)}: the best of {len(scores)} candidates on public records.\n"
    write_whole(place, (header + made.to_yaml()).encode())
    if as_json:
        typer.echo(json.dumps(_data(scores, best, metric, place), indent=2))
        return
    _say(f"best: {_settings(best)}")
    _say(f"written to {place}. Run it: {shown_command('run', place)}")


def _say(text: str) -> None:
    typer.echo(fit_terminal(text, stream=sys.stdout))


def _refuse_written(place: Path) -> None:
    if place.exists():
        raise UsageError(
            f"{place}: expected a new file for the spec with the best settings, got one that is "
            "there. Name another by --output."
        )
    if not place.parent.is_dir():
        raise UsageError(
            f"{place}: expected a file in a folder that is there, got none. Make {place.parent}, "
            "or name another by --output."
        )


def _settings(one: PublicScore) -> str:
    named = [f"{name}={json.dumps(value)}" for name, value in one.overrides.items()]
    return ", ".join(named) or "no change"


def _shown(one: PublicScore, metric: str) -> str:
    if one.score is None:
        return "diverged"
    return f"{abs(one.score):.4f}" if metric == "loss" else f"{one.score:.4f}"


def _data(scores: list[PublicScore], best: PublicScore, metric: str, place: Path) -> dict[str, Any]:
    found: list[dict[str, Any]] = []
    for one in scores:
        score = one.score
        if score is not None and metric == "loss":
            score = -score
        found.append({"overrides": one.overrides, metric: score})
    return {
        "metric": metric,
        "candidates": found,
        "best": best.overrides,
        "spec": str(place),
    }
