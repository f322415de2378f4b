"""The score of one run of a search, on the holdout: the higher the better.

Guarantee: on a private holdout one record changes the sum by at most 1, and the noise is the
planned one (`privacy/selection/scores.py`). Records go through the network one by one, so that none
can change another's part; one that raises an error counts as a wrong answer, or as a loss of 1.
Only networks of the package are scored so: they keep nothing of a record.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.data import DataLoader, default_collate

from dppipe.data.reading.record_checks import usable_part
from dppipe.data.reading.tasks import NO_TAG
from dppipe.errors import RECORD_ERRORS
from dppipe.losses.by_task import per_record_loss
from dppipe.pipeline.scoring import SCORING_BATCH_SIZE

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.utils.data import Dataset

    from dppipe.learners.gating.sources import NoiseSources
    from dppipe.planning.tuning.tune_plan import PlannedScore
    from dppipe.spec.spec import Spec


def score_run(
    network: nn.Module,
    holdout: Dataset[Any],
    spec: Spec,
    *,
    planned: PlannedScore,
    sources: NoiseSources,
) -> float | None:
    """Return the score of a trained network; None where it has diverged.

    Args:
        network: The network, in eval mode.
        holdout: The records that runs are scored on, as the model sees them.
        spec: The spec of the run.
        planned: The metric, and the noise on a private holdout.
        sources: The search's secret sources of noise.
    """
    for tensor in network.state_dict().values():
        if tensor.is_floating_point() and not tensor.isfinite().all():
            return None
    records = usable_part(holdout, spec.data)
    task = spec.data.task
    with torch.inference_mode():
        if planned.noise_std is None:
            score = _public_mean(network, records, planned.metric, task)
        else:
            total = _bounded_sum(network, records, planned.metric, task)
            noisy = torch.tensor([total], dtype=torch.float64)
            sources.get("release").add_(noisy, std=planned.noise_std)
            score = float(noisy)
    return score if math.isfinite(score) else None


def shown_score(score: float, planned: PlannedScore) -> tuple[str, float]:
    """Return the name and value by which the winner's score is shown."""
    if planned.noise_std is not None:
        return "tune/score", score
    if planned.metric == "loss":
        return "val/loss", -score
    return "val/accuracy", score


def _public_mean(network: nn.Module, records: Dataset[Any], metric: str, task: Any) -> float:
    """Return the mean over a public holdout: of right answers, or of losses with a minus."""
    parts: list[Tensor] = []
    for inputs, targets in DataLoader(records, batch_size=SCORING_BATCH_SIZE):
        parts.append(_parts(network(inputs), targets, metric, task))
    return float(torch.cat(parts).mean())


def _bounded_sum(network: nn.Module, records: Dataset[Any], metric: str, task: Any) -> float:
    """Return the sum over a private holdout; each record's part is in an interval of length 1."""
    worst = 0.0 if metric == "accuracy" else -1.0
    parts: list[float] = []
    for number in range(len(records)):  # type: ignore[arg-type]
        try:
            inputs, targets = default_collate([records[number]])
            part = float(_parts(network(inputs), targets, metric, task).sum())
        except RECORD_ERRORS:
            part = worst
        if not math.isfinite(part):
            part = worst
        parts.append(min(max(part, worst), worst + 1.0))
    return math.fsum(parts)


def _parts(predictions: Tensor, targets: Tensor, metric: str, task: Any) -> Tensor:  # -> [B]
    if metric == "loss":
        return -per_record_loss(predictions, targets, task=task).double()
    if task == "tagging":
        tokens = targets != NO_TAG
        right = ((predictions.argmax(dim=2) == targets) & tokens).sum(1)
        share: Tensor = right.double() / tokens.sum(1).clamp(min=1)
        return share
    if task == "binary":
        chosen = predictions.flatten() > 0
        return (chosen == targets.flatten().bool()).double()
    return (predictions.argmax(dim=1) == targets.flatten()).double()
