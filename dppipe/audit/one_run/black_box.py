"""The outsider's score of an input canary: how much the model's loss on it fell in training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from dppipe.errors import UsageError
from dppipe.lightning.networks import network_and_loss
from dppipe.pipeline.run import build_module
from dppipe.pipeline.seeding import seed_weights
from dppipe.runs.directory import RunDirectory, write_json

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from dppipe.spec.spec import Spec


def save_black_box(
    run: RunDirectory, spec: Spec, batch: tuple[Tensor, Tensor], *, steps: int
) -> None:
    """Save the losses of canaries at the first and the last weights of a finished run."""
    seed_weights(spec.seed)
    network, loss = network_and_loss(build_module(spec, steps=steps))
    network.eval()
    with torch.no_grad():
        first = loss(network, list(batch)).double()
        network.load_state_dict(torch.load(run.final_checkpoint, weights_only=True))
        last = loss(network, list(batch)).double()
    fell = (first - last).nan_to_num(nan=-1e300, posinf=1e300, neginf=-1e300)
    write_json(_path(run), {"scores": fell.flatten().tolist()})


def read_black_box(run: RunDirectory, *, number: int) -> NDArray[np.float64] | None:
    """Return how much each canary's loss fell, `[m]`; None where that wasn't saved."""
    if not _path(run).exists():
        return None
    try:
        scores = np.array(json.loads(_path(run).read_bytes())["scores"], dtype=np.float64)
    except (OSError, ValueError, KeyError, TypeError):
        scores = np.zeros(0)
    if scores.shape != (number,):
        raise UsageError(f"{_path(run)}: expected {number} scores, got something else.")
    return scores


def _path(run: RunDirectory) -> Path:
    return run.audit_plan.with_name("black_box.json")
