"""The kinds of parts that are combined, each as the lines of a spec.

`Combination` names one kind of each, `spec_of` makes its spec.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import NamedTuple

import dppipe
from dppipe.spec.load import spec_from_text
from dppipe.spec.spec import Spec

PLUGINS = Path(dppipe.__file__).parents[1] / "plugins"
RECORDS = 32
USERS = 8
NOISE_MULTIPLIER = 4.0

CLIPPERS = {
    "flat": "kind: flat",
    "layerwise": "kind: layerwise, shares: parameters",
    "grouped": 'kind: grouped, max_grad_norms: {"*.bias": 0.3, "*": 0.7}',
    "automatic": "kind: automatic",
    "psac": "kind: psac",
    "global": "kind: global, threshold: 60",
    "global adaptive": "kind: global, variant: adaptive, unclipped_num_std: 9.0",
    "adaptive": "kind: adaptive, unclipped_num_std: 9.0",
    "adaptive layerwise": "kind: adaptive, grouping: layerwise, unclipped_num_std: 9.0",
    "adaclip": "kind: adaclip",
    "microbatch": "kind: microbatch",
    "jl": "kind: jl, projections: 60, tolerance: 0.6, delta: 1.0e-6",
}
SAMPLERS = {
    "poisson": "kind: poisson, sample_rate: 0.6, physical_batch_size: 8",
    "user": "kind: user, sample_rate: 0.6, max_records_per_user: 5, physical_batch_size: 8",
    "truncated_poisson": "kind: truncated_poisson, expected_batch_size: 16, max_batch_size: 18, physical_batch_size: 8",
    "without_replacement": "kind: without_replacement, expected_batch_size: 24, physical_batch_size: 8",
    "with_replacement": "kind: with_replacement, expected_batch_size: 24, physical_batch_size: 8",
    "shuffle": "kind: shuffle, expected_batch_size: 16, physical_batch_size: 8",
    "balls_in_bins": "kind: balls_in_bins, expected_batch_size: 16, physical_batch_size: 8",
    "full_batch": "kind: full_batch, physical_batch_size: 8",
}
EXPECTED = {"poisson": 19, "user": 5}
"""The public batch sizes under add_remove, which keeps the number of units secret."""
MECHANISMS = {"gaussian": "", "secure": "secure: true", "laplace": "mechanism: laplace"}
RELATIONS = ("zero_out", "add_remove", "replace_one")
SCHEDULES = {
    "constant": "kind: constant",
    "linear": "kind: linear, end: 0.5",
    "exponential": "kind: exponential, end: 0.5",
    "step": "kind: step",
    "cosine": "kind: cosine, end: 0.5",
    "piecewise": "kind: piecewise, values: [1.0, 0.5], boundaries: [0.5]",
    "dynamic": "kind: dynamic",
    "dynamic_momentum": "kind: dynamic_momentum",
    "filter": "kind: budget_aware, patience: 1, decay: 0.7",
    "bounds": "kind: constant",
    "batches": "kind: constant",
}
"""Of noise, but for the last two: those of clipping bounds and of batch sizes."""
SHAPE = "{kind: linear, end: 0.5}"
"""How bounds and batches change."""


class Combination(NamedTuple):
    """One kind of every part."""

    clipper: str
    sampler: str
    mechanism: str
    relation: str
    schedule: str

    @property
    def name(self) -> str:
        return ", ".join(self)


def all_combinations() -> list[Combination]:
    """Return the whole product, whether or not it can be planned."""
    kinds = product(CLIPPERS, SAMPLERS, MECHANISMS, RELATIONS, SCHEDULES)
    return [Combination(*each) for each in kinds]


def spec_of(combination: Combination, accountant: str) -> Spec:
    """Return the spec of a combination; what can't be combined is refused, here or when it is planned."""
    noise = [SCHEDULES[combination.schedule], f"noise_multiplier: {NOISE_MULTIPLIER}"]
    noise += [MECHANISMS[combination.mechanism]] if MECHANISMS[combination.mechanism] else []
    clipping = CLIPPERS[combination.clipper]
    if combination.schedule == "bounds":
        clipping += f", bound_schedule: {SHAPE}"
    sampler = SAMPLERS[combination.sampler]
    if combination.schedule == "batches":
        sampler += f", batch_schedule: {SHAPE}"
    users = ""
    if combination.relation == "add_remove" and combination.sampler in EXPECTED:
        sampler += f", expected_batch_size: {EXPECTED[combination.sampler]}"
    elif combination.sampler == "user":
        users = f", users: {USERS}, split: {{train: 1.0, val: 0.0, test: 0.0}}"
    text = f"""
version: 1
name: connections
seed: 7
data: {{class_path: redteam.staging.Staged, holdout: public{users}}}
model: {{kind: mlp, hidden: [6]}}
optimizer: {{kind: sgd, lr: 0.5}}
sampler: {{{sampler}}}
clipping: {{{clipping}}}
noise: {{{", ".join(noise)}}}
accountant: {accountant}
budget: {{epsilon: 1.0e6, delta: 1.0e-5, relation: {combination.relation}}}
train: {{steps: 2}}
"""
    return spec_from_text(text, name=combination.name, plugins=PLUGINS)
