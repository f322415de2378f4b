"""Six small reproducible runs, one for each way in which a run can go, and what is pinned of them.

`pinned.json` holds their plans, charges and weights. A change that must not alter results leaves
them as they are. If a change alters them on purpose, write the
file anew and say in the changelog what has changed:

    PYTHONPATH=tests python -m pinned.runs
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import torch
import yaml

import dppipe
from dppipe.pipeline.run import run_spec
from dppipe.planning.privacy_plan import make_plan
from dppipe.spec.load import spec_from_text

FILE = Path(__file__).with_name("pinned.json")
PLUGINS = Path(dppipe.__file__).parents[1] / "plugins"
COMMON = """
version: 1
name: pinned
seed: 5
reproducible: true
data: {kind: synthetic, size: 240, features: 6, classes: 3}
model: {kind: mlp, hidden: [5]}
optimizer: {kind: sgd, lr: 0.2}
budget: {epsilon: 8.0, delta: 1.0e-5}
"""
RUNS = {
    "poisson": """
sampler: {kind: poisson, sample_rate: 0.1}
clipping: {kind: flat, max_grad_norm: 0.8}
accountant: pld
train: {steps: 5}
""",
    "shuffle": """
sampler: {kind: shuffle, expected_batch_size: 48}
clipping: {kind: layerwise}
noise: {kind: linear, end: 0.5, noise_multiplier: 3.0}
accountant: pld
train: {steps: 6}
""",
    "user": """
data: {kind: synthetic, size: 240, features: 6, classes: 3, users: 30}
sampler: {kind: user, sample_rate: 0.3, max_records_per_user: 4}
accountant: rdp
train: {steps: 4}
""",
    "adaptive": """
sampler: {kind: poisson, expected_batch_size: 40}
clipping: {kind: adaptive, max_grad_norm: 0.5, unclipped_num_std: 9.0}
accountant: rdp
train: {steps: 6}
""",
    "laplace": """
sampler: {kind: poisson, sample_rate: 0.2}
noise: {kind: constant, mechanism: laplace, noise_multiplier: 4.0}
accountant: basic
train: {steps: 4}
""",
    "filter": """
sampler: {kind: poisson, sample_rate: 0.2}
noise: {kind: budget_aware, noise_multiplier: 2.0, patience: 1, decay: 0.7}
accountant: rdp
train: {steps: 30}
""",
}


def spec_text(name: str) -> str:
    """Return the spec of a pinned run: its own blocks beside the common ones."""
    return yaml.safe_dump(yaml.safe_load(COMMON) | yaml.safe_load(RUNS[name]))


def results(name: str) -> dict[str, Any]:
    """Run one of them, and return its plan, the rows of its ledger and its weights."""
    spec = spec_from_text(spec_text(name), name=name, plugins=PLUGINS)
    plan = make_plan(spec)
    with tempfile.TemporaryDirectory() as folder:
        run_dir = Path(folder) / "run"
        run_spec(spec, plan, run_dir=run_dir)
        lines = (run_dir / "ledger.jsonl").read_text().splitlines()
        weights = torch.load(run_dir / "checkpoints" / "final.ckpt", weights_only=True)
    return {
        "plan": _plan_numbers(json.loads(plan.model_dump_json())),
        "charges": [_charge(json.loads(line)) for line in lines],
        "weights": {key: tensor.flatten().tolist() for key, tensor in weights.items()},
    }


def _plan_numbers(plan: dict[str, Any]) -> dict[str, Any]:
    """Return the numbers of a plan: what is claimed, drawn and charged, without hashes and versions."""
    numbers: dict[str, Any] = {}
    for key, value in plan.items():
        if isinstance(value, int | float) and not isinstance(value, bool):
            numbers[key] = value
    return numbers | {"curve": plan["curve"]}


def _charge(row: dict[str, Any]) -> dict[str, Any]:
    """Return what a row charges, without clock times and the hashes that chain rows."""
    return {key: value for key, value in row.items() if key not in ("time", "prev", "hash", "plan")}


def main() -> None:
    """Write the file anew."""
    FILE.write_text(json.dumps({name: results(name) for name in RUNS}, indent=1) + "\n")


if __name__ == "__main__":
    main()
