"""The inputs of a run, from the data to what its model sees.

Stages follow one another: scaling by private statistics, then features. What is released of the
training records is charged through the gate before the learner's own releases, and saved in the
run directory before it is used. A resumed run, `dppipe evaluate` and `load_model` read it there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy
import torch
from torch import Tensor
from torch.utils.data import TensorDataset

from dppipe.data.base import Splits
from dppipe.data.features.base import FixedFeatures
from dppipe.data.features.cache import cached_features
from dppipe.data.features.pca import PrivatePca
from dppipe.data.reading.marks import copy_marks
from dppipe.data.reading.users import check_users, users_of
from dppipe.data.reading.validity import valid_of
from dppipe.errors import PrivacyRefusal, UsageError
from dppipe.learners.gating.bounded import Bounded
from dppipe.learners.inputs.projection import ProjectionStage
from dppipe.learners.inputs.scaling import ScalingStage
from dppipe.learners.inputs.stages import InputTransform, ReleasedStage

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dppipe.data.base import Data
    from dppipe.learners.gate import Gate
    from dppipe.learners.plain_gate import PlainGate
    from dppipe.learners.ranks import Ranks
    from dppipe.planning.plan import Plan
    from dppipe.privacy.release import Prelude, Release
    from dppipe.runs.directory import RunDirectory

Stage = ReleasedStage | FixedFeatures


def stages_of(data: Data) -> tuple[Stage, ...]:
    """Return the stages between some data and the model, in order."""
    stages: list[Stage] = []
    scaling = data.private_scaling
    if scaling is not None:
        features = data.scaled_features
        scaling.limits_of(features or data.input_shape[0])  # refused before anything is charged
        stages.append(ScalingStage(scaling, features))
    made = data.feature_map
    if isinstance(made, PrivatePca):
        stages.append(ProjectionStage(made))
    elif isinstance(made, FixedFeatures):
        stages.append(made)
    return tuple(stages)


def released_transforms(data: Data, run: RunDirectory) -> list[InputTransform]:
    """Return what a run does to inputs between the data and the model; released parts are read."""
    found: list[InputTransform] = []
    for stage in stages_of(data):
        found.append(stage.read(run) if isinstance(stage, ReleasedStage) else stage)
    return found


def made_up_batch(data: Data, n: int) -> Any:
    """Return a batch of `n` made-up examples as the model sees them, for self-checks only."""
    batch = data.synthetic(n)
    stages = stages_of(data)
    if data.feature_map is None or not stages:
        return batch
    inputs, *others = batch
    inputs = torch.as_tensor(inputs)
    for stage in stages:
        shape = tuple(inputs.shape[1:])
        made_up = stage.made_up(shape) if isinstance(stage, ReleasedStage) else stage
        inputs = made_up.transformed(inputs)
    return (inputs, *others)


def transformed_part(part: Any, transforms: Sequence[InputTransform]) -> Any:
    """Return a part of the data with inputs as the model sees them; None stays None."""
    if part is None or not transforms:
        return part
    inputs, *others = _tensors(part)
    for transform in transforms:
        inputs = _whole(transform, inputs)
    return copy_marks(part, TensorDataset(inputs, *others), numpy.arange(len(inputs)))


class ModelInputs:
    """The data of a run on its way to the model.

    Guarantees:
    - What is released is charged before noise is drawn for it, and saved before it is used.
    - Every split gets the same transforms; a record's inputs are a function of that record and of
      what was released.
    """

    def __init__(self, stages: Sequence[Stage], raw: Splits) -> None:
        self.stages = tuple(stages)
        self._raw = raw
        self.splits = raw
        """What is trained and scored on: parts of the model's shapes. Their inputs are zeros until
        `prepare` where something is released first."""
        if self.preludes and not self._keeps_shape:
            self.splits = Splits(*(self._empty(part) for part in raw))
        elif not self.preludes:
            self.splits = Splits(*(transformed_part(part, self._fixed) for part in raw))

    @property
    def preludes(self) -> tuple[Prelude, ...]:
        """What is released of the training records before the learner's own releases."""
        return tuple(stage.prelude for stage in self.stages if isinstance(stage, ReleasedStage))

    def prepare(
        self, plan: Plan, run: RunDirectory | None, gate: Gate | PlainGate, *, ranks: Ranks
    ) -> None:
        """Release what is planned, or read what was released before; transform every split.

        Args:
            plan: The plan of the run.
            run: The run directory; None on every rank but the first.
            gate: What is released goes through it.
            ranks: This process among those that train together.
        """
        if not self.preludes:
            return
        parts = [None if part is None else _tensors(part)[0] for part in self._raw]
        for stage in self.stages:
            transform: InputTransform
            if isinstance(stage, ReleasedStage):
                train = parts[0] if parts[0] is not None else torch.zeros(0)
                transform = self._released(stage, train, plan, run, gate, ranks=ranks)
            else:
                transform = stage
            parts = [None if part is None else _whole(transform, part) for part in parts]
        for made, ready in zip(parts, self.splits, strict=True):
            if made is not None:
                _tensors(ready)[0].copy_(made)

    @property
    def _keeps_shape(self) -> bool:
        """Whether inputs are only scaled, which can be done in place."""
        return all(isinstance(stage, ScalingStage) for stage in self.stages)

    @property
    def _fixed(self) -> list[InputTransform]:
        return [stage for stage in self.stages if isinstance(stage, FixedFeatures)]

    def _released(
        self,
        stage: ReleasedStage,
        train: Tensor,
        plan: Plan,
        run: RunDirectory | None,
        gate: Gate | PlainGate,
        *,
        ranks: Ranks,
    ) -> InputTransform:
        """Return a stage's transform: the one that was saved, or one that is released now."""
        users = self._users(plan)  # refused before anything is charged
        release = gate.next()
        if release is None or release.what != stage.prelude.release().what:
            raise PrivacyRefusal(
                f"{stage.prelude.place}: expected a plan that releases this before anything else, "
                "got another. Make the plan from the same spec."
            )
        was_saved = run is not None and stage.file(run).exists()
        found = stage.read(run) if run is not None and was_saved else None
        saved: InputTransform | None = ranks.agree(found)
        if saved is not None:
            gate.skip(release)
            return saved
        noisy = self._noisy(stage, train, users, release, gate, ranks=ranks)
        made = None
        if ranks.first:
            shape = tuple(train.shape[1:])
            made = stage.transform(noisy, count=plan.records, input_shape=shape)
        if run is not None and made is not None:
            stage.write(run, made)
        transform: InputTransform = ranks.agree(made)
        return transform

    def _noisy(
        self,
        stage: ReleasedStage,
        train: Tensor,
        users: NDArray[numpy.int64] | None,
        release: Release,
        gate: Gate | PlainGate,
        *,
        ranks: Ranks,
    ) -> Tensor:
        """Charge and release a stage's sum.

        Guarantee: one unit moves it by at most the sensitivity that the noise is scaled to. Under
        `replace_one` it is at most twice that, which the accountant counts. Without a budget
        nothing is noised or charged.
        """
        shape = tuple(train.shape[1:])
        bound = stage.sensitivity(shape)

        def total() -> Bounded:
            # Only the first process computes: the gate sends its noisy value to the others.
            value = torch.zeros(stage.size(shape), dtype=torch.float64)
            if ranks.first:
                value = stage.total(*self._usable(train, users))
            return Bounded(value, bound, per_rank=False)

        shown = replace(release, facts={**release.facts, "sensitivity": bound})
        return gate.add_noise(shown, total)

    def _users(self, plan: Plan) -> NDArray[numpy.int64] | None:
        """Return whose each record is, where users are the unit."""
        if plan.unit != "user":
            return None
        return check_users(users_of(self._raw.train), stated=plan.records)

    def _usable(
        self, inputs: Tensor, users: NDArray[numpy.int64] | None
    ) -> tuple[Tensor, NDArray[numpy.int64] | None]:
        """Return the inputs of records that aren't marked as bad, and whose they are."""
        valid = valid_of(self._raw.train)
        if valid is None:
            return inputs, users
        return inputs[torch.from_numpy(valid)], None if users is None else users[valid]

    def _empty(self, part: Any) -> Any:
        """Return a part with zeros in place of inputs, in the model's shape."""
        if part is None:
            return None
        inputs, *others = _tensors(part)
        shape = tuple(inputs.shape[1:])
        for stage in self.stages:
            shape = stage.output_shape(shape)
        zeros = torch.zeros(len(inputs), *shape, dtype=inputs.dtype)
        return copy_marks(part, TensorDataset(zeros, *others), numpy.arange(len(inputs)))


def _whole(transform: InputTransform, inputs: Tensor) -> Tensor:
    """Return what all inputs of a part become, from a file where that is kept."""
    if isinstance(transform, FixedFeatures) and transform.is_cached:
        return cached_features(transform, inputs)
    return transform.transformed(inputs)


def _tensors(part: Any) -> tuple[Tensor, ...]:
    if not isinstance(part, TensorDataset):
        raise UsageError(
            "data: expected data in memory for normalize: {kind: private} or features, got a data "
            "set that reads its records one by one."
        )
    return part.tensors
