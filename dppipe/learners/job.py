"""What a learner that owns its loop gets to work with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor, nn

    from dppipe.learners.records.training_records import TrainingRecords
    from dppipe.privacy.release import PublicFacts


@dataclass(frozen=True)
class Job:
    """One run of a learner."""

    facts: PublicFacts
    module: nn.Module
    """The module to train: of the spec's `model` block, or of the learner's own `module(facts)`."""
    records: TrainingRecords
    """The training records; they can be read inside the gate's computations only."""
    directory: Path
    """The run directory, for ledgers of runs that one of this run's releases has paid for."""
    public: Tensor | None = None
    """`[n, *input_shape]` float32: the inputs of the learner's `public_data`, where it has some."""
    diagnostics: bool = False
    """Whether numbers without noise were asked for; they go to `nonprivate/` alone."""
    counted: frozenset[str] = frozenset()
    """The ids of earlier private runs whose cost the plan counts."""
