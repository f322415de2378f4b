"""Running a learner that owns its loop, from its plan to a finished run directory.

DP-SGD's loop is a Trainer's (`run.py`); every other learner asks the gate for one release after
another. A run that goes on after an interruption asks again from the start: values that were
released before are read from the run directory, and nothing is charged twice.
"""

from __future__ import annotations

import copy
import signal
from collections.abc import Sized
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from dppipe.data.base import split_records
from dppipe.errors import Interrupted, UsageError
from dppipe.learners.gate import Gate
from dppipe.learners.gating.sources import NoiseSources
from dppipe.learners.gating.upcoming import PlannedReleases
from dppipe.learners.inputs.lost_releases import refuse_lost_releases
from dppipe.learners.inputs.model_inputs import ModelInputs, made_up_batch, stages_of
from dppipe.learners.job import Job
from dppipe.learners.plain_gate import PlainGate
from dppipe.learners.plugin_gate import PluginGate
from dppipe.learners.ranks import Ranks
from dppipe.learners.records.faults import SuppressRecordErrors
from dppipe.learners.records.silenced_output import silenced
from dppipe.learners.records.training_records import TrainingRecords, Unit
from dppipe.pipeline.adapting import make_network
from dppipe.pipeline.memory import fitting_memory
from dppipe.pipeline.paid import Paid
from dppipe.pipeline.public_inputs import as_the_model_sees, read_public_inputs
from dppipe.pipeline.scoring import score_split
from dppipe.pipeline.seeding import seed_weights
from dppipe.planning.earlier.stored_tensors import tensor_hashes
from dppipe.planning.privacy_plan import learner_parts, public_facts
from dppipe.privacy.release import is_built_in
from dppipe.runs.directory import RunDirectory
from dppipe.runs.record import RunRecord
from dppipe.runs.registration import module_hashes
from dppipe.runs.released import ReleasedValues
from dppipe.text_layout import shown_command

if TYPE_CHECKING:
    from torch.utils.data import Dataset

    from dppipe.data.base import Splits
    from dppipe.planning.plan import Plan
    from dppipe.runs.outcome import Outcome, Stop
    from dppipe.spec.spec import Spec


def run_learner(
    spec: Spec,
    plan: Plan,
    *,
    run_dir: Path | None = None,
    resume: RunDirectory | None = None,
    paid: Paid | None = None,
) -> Outcome:
    """Learn what a spec says within what its plan allows, and leave a run directory.

    Args:
        spec: What to learn.
        plan: The plan of the spec.
        run_dir: Where a new run is written.
        resume: The run to resume, in place of a new one.
        paid: What one run of a search shares with the others; None for any other run.
    """
    seed_weights(spec.seed)
    module = untrained_module(spec)
    start = starting_tensors(spec, module)
    with fitting_memory("data"):
        inputs: ModelInputs | None = None
        if paid is None:
            inputs = _read_inputs(spec, plan)
            splits = inputs.splits
        else:
            splits = paid.splits
        public = read_public_inputs(spec)
    record = _open_record(spec, plan, run_dir=run_dir, resume=resume, covered=paid is not None)
    weights: dict[str, Any] = {}
    stopped: Stop | None = "failed"
    try:
        gate = _make_gate(spec, plan, record, paid=paid)
        if inputs is not None:
            inputs.prepare(plan, record.run, gate, ranks=Ranks())
        public = as_the_model_sees(public, spec.data, record.run if paid is None else paid.run)
        trained = _fit(spec, plan, module, splits.train, gate, record, public=public)
        # Before validation: a module may write what it sees of a private holdout into a buffer.
        released = copy.deepcopy(trained.state_dict())
        _validate(trained, splits, spec, record)
        weights = released
        stopped = None
    except KeyboardInterrupt:
        stopped = "interrupted"
        raise Interrupted(
            f"{record.run.path}: interrupted. Go on with: "
            f"{shown_command('resume', record.run.path)}",
            exit_code=128 + signal.SIGINT,
        ) from None
    finally:
        outcome = record.finish(
            weights,
            stopped=stopped,
            steps=0,
            start=start,
            validates=splits.val is not None,
            validation_records=_public_count(splits.val, plan),
        )
    return outcome


def _public_count(validation: object, plan: Plan) -> int | None:
    """Return how many records validate; None where that number isn't public."""
    if plan.private and plan.holdout == "private":
        return None
    return len(validation) if isinstance(validation, Sized) else None


def untrained_module(spec: Spec) -> nn.Module:
    """Return the module to train: of the spec's `model` block, or the learner's own."""
    facts = public_facts(spec)
    model = spec.trained_model
    if model is None:
        return spec.learner.module(facts)
    network = make_network(model, facts.input_layout, outputs=facts.outputs)
    return spec.learner.prepare(network, facts)


def starting_tensors(spec: Spec, module: nn.Module) -> frozenset[str]:
    """Return the hashes of tensors that were there before the run: it has trained none of them."""
    found = module_hashes(module)
    for file in spec.learner.weight_files:
        found |= tensor_hashes(file.path)
    return found


def _read_inputs(spec: Spec, plan: Plan) -> ModelInputs:
    raw = split_records(spec.data, seed=spec.seed, by=plan.splits_by)
    return ModelInputs(stages_of(spec.data), raw._replace(test=None))


def _fit(
    spec: Spec,
    plan: Plan,
    module: nn.Module,
    train: Dataset[Any],
    gate: Gate | PlainGate,
    record: RunRecord,
    *,
    public: Tensor | None,
) -> nn.Module:
    by_users = plan.unit == "user"
    records = TrainingRecords(train, by_users=by_users, may_read=lambda: gate.computing)
    counted = frozenset() if plan.earlier is None else plan.earlier.ids
    job = Job(
        public_facts(spec),
        module,
        records,
        record.run.path,
        public,
        counted=counted,
        diagnostics=spec.diagnostics == "nonprivate",
    )
    if _is_trusted(spec):
        trained = spec.learner.fit(job, gate)
    else:
        # A function of one unit that reads others would be bounded by nothing.
        closed = TrainingRecords(train, by_users=by_users, may_read=lambda: False)
        seen = PluginGate(gate, records, _made_up(spec), module)
        trained = spec.learner.fit(replace(job, records=closed), seen)
    _refuse_unfinished(gate, trained)
    return trained


def _make_gate(spec: Spec, plan: Plan, record: RunRecord, *, paid: Paid | None) -> Gate | PlainGate:
    """Return the gate of a run; without a budget it charges nothing and adds no noise."""
    if not plan.private or plan.relation is None:
        return PlainGate(plan)
    return Gate(
        record.ledger,
        PlannedReleases(plan),
        plan.relation,
        plan.unit,
        sources=NoiseSources(spec.seed if spec.reproducible else None, secure=plan.secure),
        covered_by=None if paid is None else paid.row,
        values=ReleasedValues(record.run, plan),
        on_release=record.release,
    )


def _is_trusted(spec: Spec) -> bool:
    """Return whether the learner is the package's own; plugins are bounded by the gate."""
    return is_built_in(spec.learner)


def _made_up(spec: Spec) -> Unit:
    """Return a made-up unit of two records, on which a learner's mistakes show."""
    inputs, targets = made_up_batch(spec.data, 2)
    return Unit(torch.as_tensor(inputs), torch.as_tensor(targets))


def _refuse_unfinished(gate: Gate | PlainGate, trained: object) -> None:
    if not isinstance(trained, nn.Module):
        raise UsageError(
            f"learner: expected fit to return a module, got {type(trained).__name__}. Fix it."
        )
    left = gate.next()
    if left is not None:
        raise UsageError(
            f"learner: expected fit to ask for every planned release, got none of {left.what!r}. "
            "Plan fewer releases, or use them."
        )


def _validate(module: nn.Module, splits: Splits, spec: Spec, record: RunRecord) -> None:
    """Record the metrics of the validation split, where there is one and the module predicts.

    No record of a private holdout ends the run or is heard of: then there are no metrics.
    """
    if splits.val is None or spec.trained_model is None:
        return
    scores: dict[str, float] = {}
    if spec.data.holdout == "public" or not record.plan.private:
        scores = score_split(module, splits.val, spec, prefix="")
    else:
        with SuppressRecordErrors(), silenced():
            scores = score_split(module, splits.val, spec, prefix="")
    record.validation(scores, step=record.ledger.rows, holdout=spec.data.holdout)


def _open_record(
    spec: Spec, plan: Plan, *, run_dir: Path | None, resume: RunDirectory | None, covered: bool
) -> RunRecord:
    parts = learner_parts(spec)
    if resume is None:
        run = RunDirectory.create(spec.name, run_dir=run_dir)
        return RunRecord.create(
            run, plan=plan, parts=parts, config=spec.to_yaml(), data=spec.data, covered=covered
        )
    record = RunRecord.reopen(
        resume, plan=plan, parts=parts, restored={}, data=spec.data, covered=covered
    )
    try:
        refuse_lost_releases(record.run, record.ledger, plan)
    except BaseException:
        record.close()
        raise
    return record
