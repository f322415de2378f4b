"""The entry of a run in the file of finished runs: later runs recognise its weights by it."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping

import torch
from torch import Tensor, nn

from dppipe.errors import DppipeError
from dppipe.planning.earlier.finished_runs import FinishedRun, finished_runs
from dppipe.planning.earlier.recognition import runs_of
from dppipe.planning.earlier.stored_tensors import tensor_hash, tensor_hashes
from dppipe.runs.directory import RunDirectory


def module_hashes(module: nn.Module) -> frozenset[str]:
    """Return the hashes of a module's tensors."""
    return _hashes(value for value in module.state_dict().values() if isinstance(value, Tensor))


def register_run(
    run: RunDirectory, weights: Mapping[str, Tensor], *, start: Collection[str]
) -> None:
    """Add an ended run to the file of finished runs, by the tensors that it trained.

    A run without a budget is added only if it started from a private run's weights. If a line
    can't be made or written, a warning says so and the run ends as usual.
    """
    place = finished_runs()
    try:
        runs = runs_of(run.path)
        if runs and runs[0].events:
            found = _hashes(weights.values()) | tensor_hashes(run.last_checkpoint)
            place.add(FinishedRun(hashes=tuple(sorted(found - set(start))), runs=runs))
    except (DppipeError, OSError, RuntimeError, TypeError, ValueError) as error:
        logging.getLogger("dppipe").warning(
            "%s: the run can't be added (%s): copies of its weights won't be recognised. "
            "Start from %s itself.",
            place.path,
            error,
            run.final_checkpoint,
        )


def _hashes(tensors: Iterable[Tensor]) -> frozenset[str]:
    found = set()
    for tensor in tensors:
        if tensor.layout is torch.strided and not tensor.is_meta:
            flat = tensor.detach().cpu().resolve_conj().contiguous().reshape(-1)
            known = tensor_hash(flat.view(torch.uint8).numpy().tobytes())
            if known is not None:
                found.add(known)
    return frozenset(found)
