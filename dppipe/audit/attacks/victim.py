"""The victim of an attack: a run's model, its records and its claim, from its directory."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from dppipe.audit.attacks.claim import Claim, claim_of_run
from dppipe.audit.attacks.predictor import Predictor, load_predictor
from dppipe.audit.attacks.records import Records, read_part
from dppipe.data.base import split_records
from dppipe.errors import PrivacyRefusal, UsageError
from dppipe.pipeline.load import spec_of
from dppipe.runs.directory import RunDirectory
from dppipe.runs.files import read_plan

if TYPE_CHECKING:
    from dppipe.planning.plan import Plan
    from dppipe.spec.spec import Spec


class Parts(NamedTuple):
    """The records of a run by what the run did with them."""

    members: Records
    """Those that were trained on."""
    holdout: Records
    """Those that validate and those that test, together."""


@dataclass(frozen=True)
class Victim:
    """A private run under attack.

    Guarantee: records are read from `records` alone, which refuses a run with a private holdout
    unless `nonprivate` says that what follows from them isn't released.
    """

    run: RunDirectory
    spec: Spec
    plan: Plan
    model: Predictor
    claim: Claim
    nonprivate: bool

    @cached_property
    def records(self) -> Parts:
        """The members and the holdout, by the spec's own split; bad records are left out."""
        if self.spec.data.holdout == "private" and not self.nonprivate:
            raise PrivacyRefusal(
                f"{self.run.path}: data.holdout: expected public, got private: what an attack "
                "finds is computed from records without noise. Say --nonprivate if none of it "
                "will be released."
            )
        splits = split_records(self.spec.data, seed=self.spec.seed, by=self.plan.splits_by)
        members = read_part(splits.train, self.spec)
        held = [read_part(part, self.spec) for part in (splits.val, splits.test)]
        found = [part for part in held if part is not None]
        if members is None or not found:
            raise UsageError(
                "data.split: expected training records and a holdout, which an attack compares, "
                "got none of one. Give `val` or `test` a share."
            )
        holdout = found[0] if len(found) == 1 else found[0].together_with(found[1])
        return Parts(members, holdout)


def open_victim(run_dir: Path, *, nonprivate: bool, plugins: Path | None = None) -> Victim:
    """Read a finished private run; no record is read before `records` is asked for."""
    run = RunDirectory.open(run_dir)
    claim = claim_of_run(run)
    if not run.config.exists():
        raise UsageError(
            f"{run.config}: expected the spec of the run, got none: it was made in Python, and "
            "its model and records are known there alone. Attack a run of `dppipe run`."
        )
    spec = spec_of(run, plugins=plugins)
    if spec.data.task == "tagging":
        raise UsageError(
            f"{run.path}: attack: expected a model that predicts a class or a number for each "
            "record, got one for each word. No attack here does that."
        )
    model = load_predictor(run, spec)
    return Victim(run, spec, read_plan(run), model, claim, nonprivate)
