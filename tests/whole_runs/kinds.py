"""Specs that each combine many features: what a run has to keep through its lives.

Each kind has a model with every piece of state that its features need, and a place where it can be stopped without
losing a step: any step, or the end of an epoch where epochs are charged as a whole.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

STEPS = 8
STOP = 4
"""After this step a run is stopped: between two checkpoints. It validates here anyway."""
SPEC = f"""
version: 1
name: lives
seed: 7
data:      {{kind: synthetic, size: 150, features: 4, classes: 3, holdout: public}}
model:     {{kind: mlp, hidden: [4]}}
optimizer: {{kind: sgd, lr: 0.5}}
sampler:   {{kind: poisson, sample_rate: 0.3}}
clipping:  {{kind: flat, max_grad_norm: 0.5}}
noise:     {{kind: constant, noise_multiplier: 2.0}}
accountant: {{kind: rdp}}
budget:    {{epsilon: 60.0, delta: 1.0e-4}}
train:     {{steps: {STEPS}, validate_every: 2, checkpoint_every: 3}}
"""
VISITS = (
    "kind: csv, path: visits.csv, records: 150, split: {train: 0.6, val: 0.2, test: 0.2}, "
    "numeric: [{column: age, mean: 50, std: 20}, {column: pulse, mean: 70, std: 10}]"
)


@dataclass(frozen=True)
class Kind:
    """One spec, as changes of the small one."""

    changes: tuple[str, ...]
    scope: str | None = None


KINDS = {
    "adapting bounds, momentum, a mean": Kind(
        (
            "clipping={kind: adaptive, unclipped_num_std: 3.0, max_grad_norm: 0.5}",
            "optimizer={kind: sgd, lr: 0.5, momentum: 0.9, schedule: {kind: cosine, end: 0.2}, averaging: ema}",
            "diagnostics=nonprivate",
        )
    ),
    "users, statistics of a table": Kind(
        (
            f"data={{{VISITS}, users: 60, user: patient, normalize: {{kind: private, noise_multiplier: 9.0}}, target: {{column: ill, classes: [0, 1]}}}}",
            "sampler={kind: user, sample_rate: 0.3, max_records_per_user: 2}",
            "clipping={kind: adaptive, grouping: layerwise, unclipped_num_std: 3.0}",
            "optimizer={kind: adam, lr: 0.1, schedule: {kind: linear, end: 0.5, warmup: 0.3}}",
        )
    ),
    "secret number of records, growing batches": Kind(
        (
            "budget.relation=add_remove",
            "sampler={kind: poisson, sample_rate: 0.2, expected_batch_size: 24, "
            "batch_schedule: {kind: linear, end: 2.0}}",
            "noise={kind: linear, noise_multiplier: 4.0, end: 0.5}",
            "optimizer={kind: adamw, lr: 0.1, averaging: {kind: polyak}}",
        )
    ),
    "noise that follows releases": Kind(
        (
            "noise={kind: budget_aware, noise_multiplier: 4.0, patience: 1, decay: 0.9}",
            'clipping={kind: grouped, max_grad_norms: {"*.bias": 0.3, "*": 0.7}}',
            "sampler={kind: poisson, sample_rate: 0.3, batch_schedule: {kind: exponential, end: 0.5}}",
            "optimizer={kind: rmsprop, lr: 0.05, momentum: 0.5}",
        )
    ),
    "shuffled epochs, falling bounds": Kind(
        (
            "sampler={kind: shuffle, expected_batch_size: 60}",
            "clipping={kind: flat, max_grad_norm: 0.5, bound_schedule: {kind: exponential, end: 0.2}}",
            "optimizer={kind: adagrad, lr: 0.2}",
            "data.holdout=private",
        ),
    ),
    "statistics of images, a global threshold": Kind(
        (
            "data={kind: digits, normalize: {kind: private, noise_multiplier: 20.0}, holdout: public}",
            "clipping={kind: global, variant: adaptive, unclipped_num_std: 3.0}",
            "noise={kind: exponential, noise_multiplier: 4.0, end: 0.5, secure: true}",
            "optimizer={kind: debiased_momentum, lr: 0.3, averaging: {kind: ema, decay: 0.7}}",
            "sampler.sample_rate=0.05",
        )
    ),
    "a shared budget, statistics beside": Kind(
        (
            "budget.scope=clinic",
            "data={kind: digits, normalize: {kind: private, noise_multiplier: 20.0}}",
            "noise={kind: step, noise_multiplier: 4.0}",
            "sampler.sample_rate=0.05",
        ),
        scope="clinic",
    ),
    "replaced records, coordinates of their own": Kind(
        (
            "budget={epsilon: 300.0, delta: 1.0e-4, relation: replace_one}",
            "sampler={kind: without_replacement, expected_batch_size: 30}",
            "clipping={kind: adaclip}",
            "optimizer={kind: sgd, lr: 0.1, nesterov: true, momentum: 0.5, averaging: ema}",
        )
    ),
    "regression until the budget ends": Kind(
        (
            f"data={{{VISITS}, holdout: public, target: {{column: pulse_after, mean: 70, std: 10}}}}",
            "train={until: budget, validate_every: 1, checkpoint_every: 3}",
            "budget.epsilon=3.5",
            "clipping=psac",
        )
    ),
    "laplace noise on all records": Kind(
        (
            "noise={kind: constant, noise_multiplier: 9.0, mechanism: laplace}",
            "sampler=full_batch",
            "accountant=basic",
            "clipping={kind: layerwise, shares: parameters}",
            "data.holdout=private",
        )
    ),
    "no budget": Kind(
        (
            "budget=none",
            "optimizer={kind: adam, lr: 0.05, schedule: {kind: cosine}, averaging: ema}",
        )
    ),
}


def write_inputs(folder: Path) -> None:
    """Write what the specs read."""
    (folder / "spec.yaml").write_text(SPEC)
    dice = random.Random(1)
    lines = ["age,pulse,pulse_after,ill,patient"]
    for row in range(150):
        numbers = [dice.randint(20, 90), dice.randint(50, 110), dice.randint(50, 110)]
        lines.append(",".join(map(str, [*numbers, dice.randint(0, 1), f"p{row % 60}"])))
    (folder / "visits.csv").write_text("\n".join(lines) + "\n")
