"""Scaling inputs by noisy statistics of the training records.

They are released and charged once, before the first step. The charge is durable before anything
noisy is seen. The released values are saved in the run directory's `statistics.json`, which a
resumed run and `dppipe evaluate` read. A run that was charged for statistics and lost them can't go
on.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.data import TensorDataset

from dppipe.data.reading.private_scaling import padded
from dppipe.data.reading.scaling import Constants
from dppipe.data.reading.users import check_users, users_of
from dppipe.data.reading.validity import valid_of
from dppipe.errors import PrivacyRefusal, UsageError
from dppipe.learners.ranks import Ranks
from dppipe.privacy.charges import Charge
from dppipe.randomness.gaussian import GaussianStream
from dppipe.randomness.streams import stream_key
from dppipe.runs.directory import RunDirectory, write_json
from dppipe.runs.follower import Follower
from dppipe.runs.record import RunRecord

if TYPE_CHECKING:
    from dppipe.data.base import Splits
    from dppipe.data.reading.private_scaling import PrivateScaling
    from dppipe.planning.plan import Plan
    from dppipe.runs.ledger import Ledger


@dataclass(frozen=True)
class InputScaling:
    """The data of a run whose inputs are scaled by statistics of its training records."""

    scaling: PrivateScaling
    splits: Splits
    features: int | None = None
    """How many entries of an input's first dimension are scaled; None for all."""

    def scale(
        self, plan: Plan, record: RunRecord | Follower, *, ranks: Ranks, seed: int | None
    ) -> None:
        """Release the statistics on the first rank; scale every split in place, on all ranks."""
        constants = None
        if isinstance(record, RunRecord):
            constants = release_constants(
                self, plan=plan, ledger=record.ledger, run=record.run, seed=seed
            )
        scale_splits(self.splits, ranks.agree(constants))


def release_constants(
    data: InputScaling, *, plan: Plan, ledger: Ledger, run: RunDirectory, seed: int | None
) -> Constants:
    """Charge and release the statistics of the training records, or read those released before.

    Guarantee: one unit moves the noised sum by at most the sensitivity that the noise is scaled to.
    Under `zero_out` it is that much; under `replace_one` twice, which the accountant counts.
    Without a budget nothing is noised or charged.
    """
    if run.statistics.exists():
        return read_constants(run)
    if plan.private and (ledger.rows or ledger.torn):
        raise PrivacyRefusal(
            f"{run.statistics}: expected the statistics that were charged for, got no file. "
            "Start a new run."
        )
    scaling = data.scaling
    train = data.splits.train
    whole = _inputs(train)
    inputs = whole[:, : data.features]
    users = check_users(users_of(train), stated=plan.records) if plan.unit == "user" else None
    total = _total(scaling, inputs, users, valid=valid_of(train))
    flat = torch.from_numpy(total)
    if plan.private:
        bound = scaling.sensitivity(inputs.shape[1])
        ledger.charge(_charge(scaling, plan, bound=bound))
        stream = GaussianStream(stream_key("statistics", seed=seed), secure=plan.secure)
        stream.add_(flat, std=scaling.noise_multiplier * bound)
    scaled = scaling.constants(flat.numpy(), count=plan.records or len(inputs))
    constants = padded(scaled, whole.shape[1])
    write_json(run.statistics, constants.model_dump(mode="json"))
    return constants


def _total(scaling: PrivateScaling, inputs: Any, users: Any, *, valid: Any) -> Any:
    """Return the sum over usable records; a user's are averaged without the dropped ones."""
    if valid is None:
        return scaling.total(inputs, users)
    return scaling.total(inputs[valid], None if users is None else users[valid])


def read_constants(run: RunDirectory) -> Constants:
    """Return the statistics that a run has released."""
    try:
        return Constants.from_data(json.loads(run.statistics.read_bytes()))
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{run.statistics}: expected the statistics that the run has released, "
            "got another file."
        ) from error


def scale_splits(splits: Splits, constants: Constants) -> None:
    """Scale the inputs of all splits in place."""
    for part in splits:
        if part is not None:
            constants.apply(_inputs(part))


def _charge(scaling: PrivateScaling, plan: Plan, *, bound: float) -> Charge:
    if plan.relation is None:
        raise PrivacyRefusal(
            "normalize: expected a plan with a relation. Statistics are private under one only."
        )
    return Charge(
        step=0,
        event=scaling.event(),
        mechanism="gaussian",
        sampler="full_batch",
        sample_rate=1.0,
        noise_multiplier=float(scaling.noise_multiplier),
        max_grad_norm=bound,
        relation=plan.relation,
        unit=plan.unit,
        count=1,
        epsilon=plan.epsilon_after(0),
    )


def _inputs(dataset: Any) -> Any:
    if not isinstance(dataset, TensorDataset):
        raise UsageError(
            "data.normalize: expected data in memory, got a data set that reads its records "
            "one by one."
        )
    return dataset.tensors[0].numpy()
