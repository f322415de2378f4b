"""The networks to choose from: files of weights, loaded and tried before anything is charged."""

from __future__ import annotations

import copy
import hashlib
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from dppipe.errors import RECORD_ERRORS, PrivacyRefusal, UsageError
from dppipe.learners.linear.last_layer import made_up_inputs
from dppipe.learners.records.faults import SuppressRecordErrors
from dppipe.learners.selecting.loss_scores import record_loss
from dppipe.planning.earlier.finished_runs import finished_runs
from dppipe.runs.registration import module_hashes
from dppipe.runs.tensors import refuse_misfit
from dppipe.runs.weight_files import read_weights

if TYPE_CHECKING:
    from dppipe.learners.job import Job

_PLACE = "learner.candidates"


def candidate_networks(job: Job, paths: Sequence[Path], hashes: Sequence[str]) -> list[nn.Module]:
    """Return one network for each file, in eval mode.

    Guarantee: each file has the bytes that the plan has hashed. Weights that a private run has
    trained are refused, unless the plan counts that run.

    Args:
        job: The run, with the network that the weights belong to.
        paths: The files, in the order of the spec.
        hashes: The SHA-256 of each file by the plan.
    """
    networks: list[nn.Module] = []
    for path, planned in zip(paths, hashes, strict=True):
        weights, data = read_weights(path, place=_PLACE)
        if hashlib.sha256(data).hexdigest() != planned:
            raise PrivacyRefusal(
                f"{_PLACE}: expected the bytes of {path} that the plan has hashed, got others. "
                "Restore the file, or start a new run."
            )
        refuse_misfit(weights, job.module.state_dict(), path=path, place=_PLACE)
        _refuse_infinite(weights, path)
        network = copy.deepcopy(job.module).eval()
        network.load_state_dict(weights)
        _refuse_uncounted(network, job.counted, path)
        _try(network, job, path)
        networks.append(network)
    return networks


def _refuse_infinite(weights: Mapping[str, Tensor], path: Path) -> None:
    for name, value in weights.items():
        if not value.isfinite().all():
            raise UsageError(
                f"{_PLACE}: expected finite numbers in {path}, got others at {name!r}. Leave the "
                "file out."
            )


def _refuse_uncounted(network: nn.Module, counted: frozenset[str], path: Path) -> None:
    """Refuse weights of a private run that planning hasn't recognised in the file."""
    for run in finished_runs().find(module_hashes(network), strict=False):
        if run.run not in counted:
            raise PrivacyRefusal(
                f"{_PLACE}: expected weights that no private run has trained, or a file in which "
                f"the plan recognises them, got those of {run.run_dir} in {path}. Their training "
                "isn't in this run's budget: save them with torch.save or safetensors."
            )


def _try(network: nn.Module, job: Job, path: Path) -> None:
    """Try a network on made-up records: a mistake in it isn't taken for a bad record.

    Guarantee: a network that is let through lost the same on one record before and after another.
    """
    one = made_up_inputs(job.facts)[:1]
    target = torch.zeros(1, dtype=torch.int64)
    if job.facts.task == "regression":
        target = torch.zeros(1, job.facts.outputs, dtype=torch.float64)
    try:
        before = record_loss(network, one, target, task=job.facts.task)
        with SuppressRecordErrors():  # it may be right to refuse a record as odd as this one
            record_loss(network, one * 3 + 1, target, task=job.facts.task)
        after = record_loss(network, one, target, task=job.facts.task)
    except RECORD_ERRORS as error:
        raise UsageError(
            f"model: expected a network that works on a made-up record, got "
            f"{type(error).__name__} with the weights of {path}: {error}. Fix the model."
        ) from error
    if before != after and not (math.isnan(before) and math.isnan(after)):
        raise PrivacyRefusal(
            "model: expected a network that keeps nothing between records, got another loss for "
            "the same made-up record after another one. One record would move the losses of "
            "others: keep no state outside of parameters."
        )
