"""A run that is audited from inside: what is planted in it, and on which records it trains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy
import torch
from torch.utils.data import TensorDataset

from dppipe.data.base import Splits
from dppipe.data.reading.users import with_users

if TYPE_CHECKING:
    from dppipe.data.base import Data
    from dppipe.learners.sgd.canaries import Canaries
    from dppipe.planning.step_plan import StepPlan


@dataclass(frozen=True)
class Audited:
    """What an audit changes in a run."""

    canaries: Canaries | None = None
    made_up: bool = False
    """Whether the run trains on made-up records in the shapes of the data, and reads none."""


def made_up_splits(data: Data, plan: StepPlan) -> Splits:
    """Return as many made-up training records as the plan has units, and nothing to validate on.

    Where the number of records is secret, it is the one that the batch size and the rate imply.
    Each user has one record. They are the same at each start of a run.
    """
    count = plan.records
    if count is None:
        count = round(plan.expected_batch_size / plan.sample_rate)
    inputs, targets = data.synthetic(count)
    made_up = TensorDataset(torch.as_tensor(inputs), torch.as_tensor(targets))
    if plan.unit == "user":
        made_up = with_users(made_up, numpy.arange(count))
    return Splits(made_up, None, None)
