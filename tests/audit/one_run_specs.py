"""Small specs for audits of one run: quick trainings on made-up records."""

from __future__ import annotations

from typing import Any

from dppipe.spec import Spec

SMALL: dict[str, Any] = {
    "version": 1,
    "name": "small",
    "data": {"kind": "synthetic", "size": 250, "features": 6},
    "model": "logistic",
    "optimizer": {"kind": "sgd", "lr": 0.5},
    "sampler": {"kind": "poisson", "expected_batch_size": 50},
    "budget": {"epsilon": 3.0, "delta": 1e-5},
    "train": {"steps": 12},
}

SAMPLERS: dict[str, dict[str, Any]] = {
    "poisson": {},
    "user": {
        "sampler": {"kind": "user", "expected_batch_size": 20},
        "data": {"kind": "synthetic", "size": 250, "features": 6, "users": 125},
    },
    "shuffle": {"sampler": {"kind": "shuffle", "expected_batch_size": 50}},
    "balls_in_bins": {
        "sampler": {"kind": "balls_in_bins", "expected_batch_size": 50},
        "accountant": "rdp",
    },
    "without_replacement": {
        "sampler": {"kind": "without_replacement", "expected_batch_size": 50},
        "budget": {"epsilon": 3.0, "delta": 1e-5, "relation": "replace_one"},
    },
    "full_batch": {"sampler": "full_batch"},
}


def small_spec(**blocks: Any) -> Spec:
    """Return the small spec with some blocks replaced."""
    return Spec.from_data(SMALL | blocks)
