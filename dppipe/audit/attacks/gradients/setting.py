"""The setting of a gradient inversion: the model, the victim's record, and the batch around it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy
import torch
from torch import Tensor

from dppipe.audit.attacks.box import Box, box_of
from dppipe.audit.attacks.gradients.inputs import Records, RunStep
from dppipe.audit.attacks.gradients.knowledge import Knowledge
from dppipe.audit.attacks.made_up import made_up_inputs, made_up_targets
from dppipe.errors import PrivacyRefusal, UsageError
from dppipe.lightning.networks import network_and_loss
from dppipe.lightning.objectives import objective_of
from dppipe.lightning.own_modules import own_module
from dppipe.pipeline.load import load_network
from dppipe.planning.parts import parts_of
from dppipe.planning.step_plan import StepPlan
from dppipe.runs.tensors import load_tensors

if TYPE_CHECKING:
    from dppipe.audit.attacks.victim import Victim
    from dppipe.learners.inputs.stages import InputTransform
    from dppipe.runs.directory import RunDirectory

DECOYS = 999
"""Among how many other records the victim's has to be told by what an attack found."""


@dataclass(frozen=True)
class Setting:
    """What is attacked, and by what it is judged."""

    known: Knowledge
    step: RunStep
    batch: Records
    """The records of the run's release; the first one is the victim's."""
    mean_record: Tensor
    """The guess of somebody who knows nothing but what records are like."""
    decoys: Tensor
    """`[n, *input_shape]`: other records of the same source, which no gradient was computed of."""
    record: int | None
    """The number of the training record; None for a made-up one."""

    @property
    def victim(self) -> Records:
        """The victim's record, as a batch of one."""
        inputs, targets = self.batch
        return inputs[:1], targets[:1]

    @property
    def is_made_up(self) -> bool:
        """Whether no real record is used."""
        return self.record is None


def make_setting(victim: Victim, *, record: int | None, seed: int) -> Setting:
    """Return the setting of a run: a made-up record, or a training record with `--nonprivate`."""
    plan = victim.plan
    if not isinstance(plan, StepPlan):
        raise UsageError(
            f"{victim.run.path}: --kind gradients: expected a run that takes gradient steps, of "
            f"learner dp_sgd, got learner {victim.spec.learner.kind!r}. It releases no gradient."
        )
    _refuse_integers(victim)
    step = RunStep(parts_of(victim.spec), plan, _clipper_state(victim.run))
    transforms = victim.model.transforms
    box = box_of(victim.spec.data, transforms)
    if record is None:
        batch, others = _made_up(victim, step.batch_size, box=box, seed=seed)
    else:
        batch, others = _of_members(victim, record, step.batch_size, transforms, seed=seed)
    known = _knowledge(victim, box=box, target=batch[1][:1])
    return Setting(known, step, batch, others.mean(0), others[:DECOYS], record)


def _knowledge(victim: Victim, *, box: Box | None, target: Tensor) -> Knowledge:
    """Return the model at the run's last weights; its trainable parameters train."""
    spec = victim.spec
    network = load_network(victim.run, spec)
    own = own_module(network, spec)
    objective = objective_of(spec)
    return Knowledge(
        network,
        objective.per_sample_loss if own is None else network_and_loss(own)[1],
        spec.data.task,
        spec.data.outputs,
        spec.data.model_input_shape,
        box,
        None if own is None else target,
    )


def _made_up(victim: Victim, size: int, *, box: Box | None, seed: int) -> tuple[Records, Tensor]:
    data = victim.spec.data
    shape = data.model_input_shape
    inputs = made_up_inputs(shape, size, box=box, seed=seed)
    targets = made_up_targets(data.task, data.outputs, size, seed=seed)
    return (inputs, targets), made_up_inputs(shape, DECOYS, box=box, seed=seed + 1)


def _of_members(
    victim: Victim,
    record: int,
    size: int,
    transforms: Sequence[InputTransform],
    *,
    seed: int,
) -> tuple[Records, Tensor]:
    if not victim.nonprivate:
        raise PrivacyRefusal(
            "attack: --record: expected --nonprivate beside it, got none: the attack shows a "
            "training record. Leave --record out to attack a made-up one."
        )
    members = victim.records.members
    if not 0 <= record < len(members):
        raise UsageError(
            f"attack: --record: expected a training record from 0 to {len(members) - 1}, "
            f"got {record}."
        )
    order = numpy.random.default_rng(seed).permutation(len(members))
    others = order[order != record][: size - 1]
    chosen = torch.from_numpy(numpy.concatenate([[record], others]))
    inputs = _transformed(members.inputs[chosen], transforms)
    holdout = _transformed(victim.records.holdout.inputs, transforms)
    return (inputs, members.targets[chosen]), holdout


def _transformed(inputs: Tensor, transforms: Sequence[InputTransform]) -> Tensor:
    for transform in transforms:
        inputs = transform.transformed(inputs)
    return inputs


def _clipper_state(run: RunDirectory) -> dict[str, Any]:
    """Return the clipper's state in the run's last checkpoint; empty where it keeps none."""
    if not run.last_checkpoint.exists():
        return {}
    checkpoint = load_tensors(run.last_checkpoint)
    own = checkpoint.get("callbacks", {}).get("DPCallback", {})
    return dict(own.get("clipper_state") or {})


def _refuse_integers(victim: Victim) -> None:
    ranges = victim.spec.data.ranges
    if ranges and ranges[0] is not None:
        raise UsageError(
            f"{victim.run.path}: --kind gradients: expected inputs of real numbers, got integers: "
            "no search can follow a slope among them."
        )
