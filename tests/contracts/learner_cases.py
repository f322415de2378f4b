"""The learners that are held to one contract: a small spec of each, and what it supports.

A learner that is added to the package gets an entry in `ENTRIES`, and nothing else. Several entries of one kind are
welcome where options change how it releases. Records are those of `staged_records.py`: 60 training records of four
numbers, of 20 users where users are the unit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from contracts.staged_records import CLASSES, FEATURES, Records
from torch import Tensor

from dppipe.learners.job import Job
from dppipe.learners.records.training_records import TrainingRecords
from dppipe.pipeline.learn import untrained_module
from dppipe.spec.kinds.registry import Registry
from dppipe.spec.spec import Spec

RELATIONS = ("zero_out", "add_remove", "replace_one")
UNITS = ("example", "user")
MINIMUM: dict[str, str] = {
    "model": "model: logistic",
    "optimizer": "optimizer: {kind: sgd, lr: 0.1}",
    "sampler": "sampler: full_batch",
    "clipping": "clipping: flat",
    "noise": "noise: constant",
    "train": "train: {steps: 1}",
}
"""The blocks of a spec that a learner may take or not, each in its shortest form."""


@dataclass(frozen=True, kw_only=True)
class LearnerCase:
    """One learner with one set of options."""

    kind: str
    learner: str
    """The `learner` block of the spec."""
    releases: tuple[str, ...]
    """What it releases, in order."""
    shown: tuple[str, ...] = ()
    """How the plan and the statement begin to name each release, where that isn't its own name."""
    learner_for: Mapping[str, str] = field(default_factory=dict)
    """The block under a relation that needs other options."""
    name: str = ""
    """A name where the kind has several cases."""
    blocks: str = ""
    """Other blocks of the spec that it needs, a line each."""
    task: str = "multiclass"
    """What is predicted: multiclass (three classes), binary or regression."""
    epsilon: float = 2.0
    relations: tuple[str, ...] = RELATIONS
    units: tuple[str, ...] = UNITS
    predicts: bool = True
    """Whether its model can be scored: it takes a `model` block."""
    resumes: bool = True
    """Whether values of releases are saved, so that a run goes on behind them."""
    unusable: tuple[str, ...] = ("nan", "label out of range")
    """The records of `staged_records.HARMFUL` that contribute nothing; of one that doesn't look at
    labels, those with a wrong one do."""
    sound: bool = True
    """Whether its sensitivity holds; a test's learner may show a mechanism alone."""
    too_little_noise: str | None = "learner.noise_multiplier=0.001"
    """A change to the spec whose releases cost more than any budget; None where there is none."""
    more_noise: str | None = "learner.noise_multiplier=20.0"
    """A change to the spec whose releases cost less than half of the budget."""
    files: Callable[[Path], None] | None = None
    """Writes the files that the spec names, into the folder that commands run in."""
    inside: Callable[[Spec, Records, Tensor], Tensor] | None = None
    """Where a solver is given the noise: the noise for which it finds this solution."""

    @property
    def names(self) -> tuple[str, ...]:
        """How the plan and the statement begin to name each release."""
        return self.shown or tuple(f"{what} (" for what in self.releases)

    @property
    def id(self) -> str:
        return f"{self.kind}-{self.name}" if self.name else self.kind


def gradient_of_the_objective(spec: Spec, records: Records, solution: Tensor) -> Tensor:
    """Return the noise at which a perturbed objective has its minimum at this solution."""
    from dppipe.learners.perturbation.objective import Objective

    learner: Any = spec.learner
    facts = spec.public_facts()
    module = untrained_module(spec)
    known = TrainingRecords(records, by_users=facts.unit == "user", may_read=lambda: True)  # type: ignore[arg-type]
    rows = learner.rows(Job(facts, module, known, Path()), None)
    objective = Objective.of(
        rows,
        learner.constants(facts),
        regularization=learner.lambda_for(facts),
        noise=torch.zeros_like(solution),
    )
    return -objective.gradient(solution)


def write_candidates(folder: Path) -> None:
    """Write three files of weights of a logistic model."""
    generator = torch.Generator().manual_seed(0)
    for name in ("a", "b", "c"):
        weights = {
            "1.weight": torch.randn(CLASSES, FEATURES, generator=generator),
            "1.bias": torch.zeros(CLASSES),
        }
        torch.save(weights, folder / f"{name}.pt")


PUBLIC = "{kind: synthetic, size: 40, features: 4, classes: 3, data_seed: 1}"
ENTRIES: tuple[LearnerCase, ...] = (
    LearnerCase(
        kind="output_perturbation",
        learner="{kind: output_perturbation, max_norm: 2.0, regularization: 200.0}",
        blocks="model: logistic",
        releases=("weights",),
    ),
    LearnerCase(
        kind="output_perturbation",
        name="pure",
        learner="{kind: output_perturbation, regularization: 200.0, mechanism: pure, scale: unit}",
        blocks="model: logistic",
        task="regression",
        releases=("weights",),
    ),
    LearnerCase(
        kind="objective_perturbation",
        learner="{kind: objective_perturbation, max_norm: 1.5}",
        blocks="model: logistic",
        task="binary",
        releases=("weights",),
        relations=("zero_out", "add_remove"),
        units=("example",),
        inside=gradient_of_the_objective,
    ),
    LearnerCase(
        kind="mean",
        learner="{kind: mean, max_norm: 2.0}",
        learner_for={"add_remove": "{kind: mean, max_norm: 2.0, expected_records: 50.0}"},
        releases=("mean",),
        predicts=False,
        unusable=("nan",),
    ),
    LearnerCase(
        kind="mean",
        name="laplace",
        learner="{kind: mean, max_norm: 2.0, mechanism: laplace}",
        learner_for={
            "add_remove": "{kind: mean, max_norm: 2.0, mechanism: laplace, expected_records: 50.0}"
        },
        releases=("mean",),
        predicts=False,
        unusable=("nan",),
    ),
    LearnerCase(
        kind="exponential",
        learner="{kind: exponential, candidates: [a.pt, b.pt, c.pt], loss_bound: 2.0}",
        blocks="model: logistic",
        releases=("selection",),
        too_little_noise="learner.epsilon=100.0",
        more_noise="learner.epsilon=0.1",
        files=write_candidates,
    ),
    LearnerCase(
        kind="linear_regression",
        learner="{kind: linear_regression, max_norm: 2.0, target_bound: 1.0}",
        blocks="model: logistic",
        task="regression",
        releases=("moments",),
    ),
    LearnerCase(
        kind="linear_regression",
        name="adassp",
        learner="{kind: linear_regression, method: adassp, max_norm: 2.0}",
        blocks="model: logistic",
        releases=("moments",),
    ),
    LearnerCase(
        kind="subsample_aggregate",
        learner="{kind: subsample_aggregate, blocks: 10, radius: 2.0, inner: {kind: logistic_ridge, regularization: 1.0}}",
        blocks="model: logistic",
        releases=("weights",),
    ),
    LearnerCase(
        kind="subsample_aggregate",
        name="medians",
        learner="{kind: subsample_aggregate, blocks: 10, radius: 2.0, aggregate: median, inner: {kind: ridge, regularization: 1.0}}",
        blocks="model: logistic",
        task="regression",
        releases=("medians",),
    ),
    LearnerCase(
        kind="pate",
        learner=f"{{kind: pate, teachers: 10, queries: 5, public: {PUBLIC}}}",
        releases=("vote",),
        shown=("votes of 10 teachers on 5 public inputs",),
        too_little_noise="learner.noise_scale=0.01",
        more_noise="learner.noise_scale=60.0",
    ),
    LearnerCase(
        kind="pate",
        name="confident",
        learner=f"{{kind: pate, teachers: 10, queries: 5, aggregator: confident_gnmax, public: {PUBLIC}}}",
        releases=("confidence", "vote"),
        shown=("the largest noisy count of votes on 10 public inputs", "votes of 10 teachers"),
        too_little_noise="learner.noise_scale=0.01",
        more_noise="learner.noise_scale=60.0",
    ),
)
"""At least one entry for each learner of the package but dp_sgd."""
LEARNERS = Registry().kinds("learner")
CASES = tuple(entry for entry in ENTRIES if entry.kind in LEARNERS)
"""The entries of learners that are there."""

OWN_CASES: tuple[LearnerCase, ...] = (
    LearnerCase(
        kind="profile",
        learner="{kind: profile}",
        releases=("sum", "selection", "distances"),
        predicts=False,
        unusable=("nan",),
    ),
    LearnerCase(
        kind="search",
        learner="{kind: search}",
        releases=("selection", "selection"),
        predicts=False,
        unusable=("nan",),
        resumes=False,
        too_little_noise=None,
        more_noise=None,
    ),
    LearnerCase(
        kind="slope",
        learner="{kind: slope}",
        releases=("weights",),
        predicts=False,
        sound=False,
    ),
)
"""Learners of the tests, which stand among the package's own while these tests run."""
