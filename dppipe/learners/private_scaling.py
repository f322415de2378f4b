"""Scaling inputs by noisy statistics of the training records.

They are released and charged once, before the first step. The charge is durable before anything
noisy is seen. The released values are saved in the run directory's `statistics.json`, which a
resumed run and `dppipe evaluate` read. A run that was charged for statistics and lost them can't go
on.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils.data import TensorDataset

from dppipe.data.reading.private_scaling import padded
from dppipe.data.reading.scaling import Constants
from dppipe.data.reading.users import check_users, users_of
from dppipe.data.reading.validity import valid_of
from dppipe.errors import PrivacyRefusal, UsageError
from dppipe.learners.gate import Gate
from dppipe.learners.gating.bounded import Bounded
from dppipe.learners.ranks import Ranks
from dppipe.runs.directory import RunDirectory, write_json

if TYPE_CHECKING:
    from dppipe.data.base import Splits
    from dppipe.data.reading.private_scaling import PrivateScaling
    from dppipe.planning.step_plan import StepPlan
    from dppipe.runs.ledger import Ledger


@dataclass(frozen=True)
class InputScaling:
    """The data of a run whose inputs are scaled by statistics of its training records."""

    scaling: PrivateScaling
    splits: Splits
    features: int | None = None
    """How many entries of an input's first dimension are scaled; None for all."""

    def scale(
        self, plan: StepPlan, run: RunDirectory | None, gate: Gate | None, *, ranks: Ranks
    ) -> None:
        """Release the statistics, or read those released before; scale every split in place.

        Args:
            plan: The plan of the run.
            run: The run directory; None on every rank but the first.
            gate: What the statistics are released through; None without a budget.
            ranks: This process among those that train together.
        """
        constants = None
        if run is not None and run.statistics.exists():
            constants = read_constants(run)
        constants = ranks.agree(constants)
        if constants is None:
            constants = self._release(plan, gate, ranks=ranks)
            if run is not None:
                write_json(run.statistics, constants.model_dump(mode="json"))
        scale_splits(self.splits, constants)

    def _release(self, plan: StepPlan, gate: Gate | None, *, ranks: Ranks) -> Constants:
        """Charge and release the statistics of the training records.

        Guarantee: one unit moves the noised sum by at most the sensitivity that the noise is scaled
        to. Under `zero_out` it is that much; under `replace_one` twice, which the accountant
        counts. Without a budget nothing is noised or charged.
        """
        whole = _inputs(self.splits.train)
        bound = self.scaling.sensitivity(whole[:, : self.features].shape[1])
        users = self._users(plan)  # refused before anything is charged
        if gate is None:
            total = self._total(users)
        else:
            release = gate.next()
            if release is None or release.what != "statistics":
                raise PrivacyRefusal(
                    "data.normalize: expected a plan that has statistics before its first step, "
                    "got another. Make the plan from the same spec."
                )
            shown = replace(release, facts={**release.facts, "sensitivity": bound})
            total = gate.add_noise(
                shown, lambda: Bounded(self._total(users), bound, per_rank=False)
            )
        count = plan.records or len(whole)
        scaled = self.scaling.constants(total.numpy(), count=count)
        return padded(scaled, whole.shape[1])

    def _users(self, plan: StepPlan) -> Any:
        """Return whose each record is, where users are the unit."""
        if plan.unit != "user":
            return None
        return check_users(users_of(self.splits.train), stated=plan.records)

    def _total(self, users: Any) -> Tensor:
        """Return the sum over usable records; a user's are averaged without the dropped ones."""
        train = self.splits.train
        inputs = _inputs(train)[:, : self.features]
        valid = valid_of(train)
        if valid is not None:
            inputs = inputs[valid]
            users = None if users is None else users[valid]
        return torch.from_numpy(self.scaling.total(inputs, users))


def refuse_lost_statistics(run: RunDirectory, ledger: Ledger, plan: StepPlan) -> None:
    """Refuse to go on with a run that was charged for statistics and lost them."""
    was_charged = bool(ledger.rows or ledger.torn)
    if plan.releases and was_charged and not run.statistics.exists():
        raise PrivacyRefusal(
            f"{run.statistics}: expected the statistics that were charged for, got no file. "
            "Start a new run."
        )


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


def _inputs(dataset: Any) -> Any:
    if not isinstance(dataset, TensorDataset):
        raise UsageError(
            "data.normalize: expected data in memory, got a data set that reads its records "
            "one by one."
        )
    return dataset.tensors[0].numpy()
