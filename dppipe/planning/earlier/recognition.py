"""Which private runs have trained a file of weights.

A run is found by its directory, if the file is in it, or by the file's tensors. Nothing here needs
torch, so that `dppipe plan` and `dppipe run` find the same. A file that isn't recognised is taken
as public, and the statement says so. Read next: `earlier.py`, how the runs are counted.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import ValidationError

from dppipe.errors import PrivacyRefusal
from dppipe.planning.earlier.finished_runs import finished_runs
from dppipe.planning.earlier.runs import ChargedEvent, Earlier, EarlierRun, Records, merged
from dppipe.planning.earlier.stored_tensors import tensor_hashes
from dppipe.planning.plan import Plan
from dppipe.planning.step_plan import StepPlan, plan_from_json
from dppipe.privacy.charges import charged_steps
from dppipe.privacy.events.plain import changed_event, event_to_data
from dppipe.privacy.events.sequences import merge
from dppipe.privacy.ledger_reading import LedgerRows, read_ledger
from dppipe.spec.yaml.reader import read_yaml
from dppipe.text_layout import shown_command

if TYPE_CHECKING:
    from dppipe.spec.spec import Spec


class WeightFile(NamedTuple):
    """A file of weights that a spec names."""

    place: str
    """The option that names it, for messages."""
    path: Path
    records: Records


def recognise(spec: Spec) -> Earlier | None:
    """Return the private runs whose weights a spec starts from; None where none are recognised.

    Guarantees:
    - A file inside the directory of a private run is recognised, and so is a file with a tensor
      that a private run on this machine has trained.
    - A private spec is refused weights of a run that has no bound on these records. A spec without
      a budget isn't, but runs that start from its own weights find the run in its plan.
    """
    files = weight_files(spec)
    runs: list[EarlierRun] = []
    for file in files:
        runs += _runs_behind(file, spec)
    if not runs:
        return None
    place = files[0].place
    found = Earlier(records=files[0].records, runs=merged(runs))
    if spec.private:
        _refuse_unbounded(found, spec, place=place)
        _refuse_same_data(found, spec, place=place)
    return found


def weight_files(spec: Spec) -> list[WeightFile]:
    """Return the files of weights that a spec names: to start from, or to choose from."""
    files: list[WeightFile] = []
    model = spec.trained_model
    given = None if model is None else model.pretrained
    if given is not None:
        files.append(WeightFile("model.pretrained", given.path, given.records))
    for candidate in spec.learner.weight_files:
        files.append(WeightFile("learner.candidates", candidate.path, candidate.records))
    return files


def _runs_behind(file: WeightFile, spec: Spec) -> list[EarlierRun]:
    """Return the private runs that have trained the weights in a file."""
    runs: list[EarlierRun] = []
    directory = run_directory_around(file.path)
    if directory is not None:
        if spec.private:
            _refuse_unprotected(directory, spec, place=file.place)
            _refuse_unended(directory, place=file.place)
        runs += runs_of(directory)
    return runs + finished_runs().find(tensor_hashes(file.path), strict=spec.private)


def run_directory_around(path: Path) -> Path | None:
    """Return the run directory that holds a file, at any depth."""
    for folder in path.resolve().parents:
        plan = folder / "plan.json"
        if plan.is_file() and ((folder / "ledger.jsonl").is_file() or _is_plan(plan)):
            return folder
    return None


def runs_of(directory: Path) -> tuple[EarlierRun, ...]:
    """Return what a run has charged, if it was private, and the runs that it started from."""
    plan = _plan(directory)
    before = plan.earlier.runs if plan.earlier is not None else ()
    if plan.relation is None:
        return before
    ledger = read_ledger(directory / "ledger.jsonl", plan=(directory / "plan.json").read_bytes())
    own = EarlierRun(
        run=run_id(directory) or ledger.head,
        run_dir=str(directory.resolve()),
        ledger_head=ledger.head,
        relation=plan.relation,
        unit=plan.unit,
        scope=plan.scope,
        failure_delta=plan.failure_delta,
        reproducible=plan.reproducible,
        filtered=plan.schedule == "filter",
        data_hash=_data_hash_of(directory),
        events=_events(ledger, plan),
    )
    return (own, *before)


def run_id(directory: Path) -> str | None:
    """Return the id that a run was given when it began; None where it has none."""
    known = _json(directory / "origin.json").get("run")
    return known if isinstance(known, str) and known else None


def _events(ledger: LedgerRows, plan: Plan) -> tuple[ChargedEvent, ...]:
    """Return a run's charged events: its rows if all steps are charged, else its whole plan.

    The moment of an early stop may depend on released values, so an early stop lowers no claim.
    """
    steps = [charge for charge in ledger.charges if charge.step]
    charged = charged_steps(ledger.charges)
    if not isinstance(plan, StepPlan):
        if charged:
            charged = [(release.dp_event, release.count) for release in plan.releases]
    elif steps and plan.start_after(steps[-1].step) < plan.steps:
        like = steps[-1].event
        charged = charged_steps(row for row in ledger.charges if not row.step)
        for z, rate, count in plan.charged_runs():
            event = changed_event(like, noise_multiplier=z, sampling_probability=rate)
            charged.append((event, count))
    events = []
    for event, count in merge(charged).items():
        events.append(ChargedEvent(event=event_to_data(event), count=count))
    return tuple(events)


def _plan(directory: Path) -> Plan:
    try:
        return plan_from_json((directory / "plan.json").read_bytes())
    except (OSError, ValidationError, RecursionError):
        raise PrivacyRefusal(
            f"{directory / 'plan.json'}: expected the plan of the run whose weights are started "
            "from, got something else. Restore it."
        ) from None


def _is_plan(path: Path) -> bool:
    try:
        plan_from_json(path.read_bytes())
    except (OSError, ValidationError, RecursionError):
        return False
    return True


def _json(path: Path) -> Mapping[str, Any]:
    try:
        data = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


def _refuse_unprotected(directory: Path, spec: Spec, *, place: str) -> None:
    """Refuse weights of a run without a budget on the data that the spec names."""
    same_data = _data_hash_of(directory) == _data_hash(spec.data.to_data())
    if same_data and not _plan(directory).private:
        raise PrivacyRefusal(
            f"{place}: expected weights that were trained on other data or with a "
            f"budget, got those of {directory}, which was trained on the same data without "
            "privacy. No noise makes up for that: start from other weights."
        )


def _refuse_unended(directory: Path, *, place: str) -> None:
    """Refuse a run that may go on, or that has crashed: its cost isn't known."""
    if not _plan(directory).private:
        return
    ledger = read_ledger(directory / "ledger.jsonl", plan=(directory / "plan.json").read_bytes())
    if ledger.torn or _json(directory / "summary.json").get("ledger_head") != ledger.head:
        has_spec = (directory / "config.yaml").exists()
        what_to_do = "Resume it to its end"
        if has_spec:
            what_to_do = f"End it with {shown_command('resume', directory)}"
        raise PrivacyRefusal(
            f"{place}: expected weights of a run that has ended, got those of "
            f"{directory}, whose ledger and summary don't say so. {what_to_do}, or start from "
            "other weights."
        )


def _refuse_unbounded(found: Earlier, spec: Spec, *, place: str) -> None:
    """Refuse runs whose cost can't be composed with the cost of another run."""
    for run in found.runs:
        if run.filtered:
            raise PrivacyRefusal(
                f"{place}: expected weights of a run whose noise was fixed in its plan, "
                f"got those of {run.run_dir}, whose noise followed released values. No bound "
                "covers it together with further steps: start from other weights."
            )
        if run.reproducible and not spec.reproducible:
            raise PrivacyRefusal(
                f"{place}: expected weights of a run with secret noise, got those of "
                f"{run.run_dir}, which was reproducible: true and gives no protection. Start from "
                "other weights."
            )


def _refuse_same_data(found: Earlier, spec: Spec, *, place: str) -> None:
    """Refuse `disjoint` for weights that were trained on the data which the spec names."""
    mine = _data_hash(spec.data.to_data())
    option = "learner.records" if place == "learner.candidates" else f"{place}.records"
    for run in found.runs:
        if found.records == "disjoint" and run.data_hash == mine:
            raise PrivacyRefusal(
                f"{option}: expected same, as {run.run_dir} was trained on the "
                "data that this spec names, got disjoint. Write same, and its cost is added."
            )


def _data_hash_of(directory: Path) -> str | None:
    try:
        spec = read_yaml((directory / "config.yaml").read_text()).data
    except (OSError, ValueError):
        return None
    if not isinstance(spec, Mapping) or "data" not in spec:
        return None
    return _data_hash(spec["data"])


def _data_hash(data: Any) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True, default=str).encode()).hexdigest()
