"""The end of a search: the best run is released, and everything else is deleted.

The winner's files are written first, `tune.json` last of them. From then on a search that goes on
only deletes what is secret and writes its summary and statement. So a finished search has nothing
secret left, and nothing is released twice.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dppipe.durable import sync_names
from dppipe.errors import UsageError
from dppipe.pipeline.tuning.scoring import shown_score
from dppipe.runs.directory import RunDirectory, write_json, write_whole
from dppipe.runs.files import read_summary
from dppipe.runs.showing.winner_curves import write_winner_curves
from dppipe.runs.tensors import load_tensors, save_tensors

if TYPE_CHECKING:
    from dppipe.pipeline.tuning.candidates import Candidate
    from dppipe.pipeline.tuning.sealed import Sealed
    from dppipe.planning.tuning.tune_plan import TunePlan


def release_winner(
    run: RunDirectory, plan: TunePlan, sealed: Sealed, candidates: tuple[Candidate, ...]
) -> None:
    """Write what the search releases: the best run, or that there is none."""
    best = sealed.progress.best
    winner: dict[str, Any] | None = None
    write_whole(run.path / "tune" / "config.yaml", run.config.read_bytes())
    if best is not None:
        number = sealed.order[best]
        source = RunDirectory(sealed.place(best))
        save_tensors(load_tensors(source.final_checkpoint), run.final_checkpoint)
        kept = RunDirectory(run.path / "tune" / "winner")
        kept.path.mkdir(exist_ok=True)
        write_whole(kept.plan, source.plan.read_bytes())
        write_whole(kept.ledger, source.ledger.read_bytes())
        sync_names(kept.ledger)
        score = sealed.progress.score
        if score is not None:
            shown = shown_score(score, plan.search.score)
            moment = int(run.plan.stat().st_mtime)
            write_winner_curves(kept, score=shown, moment=moment)
        write_whole(run.config, candidates[number].spec.to_yaml().encode())
        winner = _winner(source, plan, number=number, score=score)
    write_json(run.path / "tune.json", _facts(plan) | {"winner": winner})


def read_release(run: RunDirectory) -> dict[str, Any] | None:
    """Return what a search has released; None while it is still searching."""
    path = run.path / "tune.json"
    if not path.exists():
        return None
    try:
        found = json.loads(path.read_bytes())
        winner = found["winner"]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        winner = 0
    if winner is not None and not isinstance(winner, Mapping):
        raise UsageError(f"{path}: expected what the search has written, got something else.")
    return dict(found)


def clean_up(run: RunDirectory) -> None:
    """Remove what a crash has left half-written under `tune/`."""
    for leftover in (run.path / "tune").rglob(".*.tmp-*"):
        leftover.unlink()


def even_times(run: RunDirectory) -> None:
    """Set the times of all files to that of the plan: theirs would tell how long the search took.

    The plan and the ledger were written before it and keep theirs.
    """
    moment = run.plan.stat().st_mtime
    for path in (run.path, *run.path.rglob("*")):
        if path not in (run.plan, run.ledger):
            os.utime(path, (moment, moment), follow_symlinks=False)


def _facts(plan: TunePlan) -> dict[str, Any]:
    repetitions = plan.search.repetitions
    return {
        "repetitions": {
            "kind": repetitions.kind,
            "mean": repetitions.mean,
            "shape": repetitions.shape,
        },
        "candidates": len(plan.search.candidates),
        "epsilon": plan.epsilon,
        "delta": plan.delta,
        "relation": plan.relation,
        "accountant": plan.accountant,
        "metric": plan.search.score.metric,
        "noise_std": plan.search.score.noise_std,
    }


def _winner(
    source: RunDirectory, plan: TunePlan, *, number: int, score: float | None
) -> dict[str, Any]:
    """Return what is said of the winner: all of it is part of what one run releases."""
    ended = read_summary(source)
    candidate = plan.search.candidates[number]
    return {
        "candidate": number,
        "overrides": candidate.overrides,
        "noise_multiplier": candidate.noise_multiplier,
        "score": score,
        "updates": ended.get("steps"),
        "physical_batch_size": ended.get("physical_batch_size"),
        "independence": ended.get("independence"),
    }
