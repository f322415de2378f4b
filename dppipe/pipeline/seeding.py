"""The public seed of a run: it starts the generators that initial weights are drawn from."""

from __future__ import annotations

import os
import random

import numpy
import torch


def seed_weights(seed: int) -> None:
    """Seed the global generators as Lightning's `seed_everything` does, without loading Lightning.

    The variables let Lightning seed the processes that it starts in the same way.
    """
    os.environ["PL_GLOBAL_SEED"] = str(seed)
    os.environ["PL_SEED_WORKERS"] = "0"
    random.seed(seed)
    numpy.random.seed(seed)
    torch.manual_seed(seed)
