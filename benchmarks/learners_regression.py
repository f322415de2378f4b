"""Linear regression from noisy sums: `python benchmarks/learners_regression.py FOLDER [--seeds N]`.

Three tables. UCI Adult as a ridge classification, encoded by public constants as `learners_adult.py` does: FOLDER holds
`adult.data.gz` and `adult.test.gz` as they are published. A made regression, of which the weights are known. And the
442 records of scikit-learn's diabetes data, of which every fourth one tests; age, sex and eight measurements are used as
they are published, times 5, and a target t as (t - 150) / 100. Each run is a whole `dppipe run` with secret noise.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from learners_adult import Records, accuracy, read, repeated

from dppipe.pipeline.load import load_model

METHODS = ("joint", "adassp")
EPSILONS = (0.1, 1.0)
MADE_FEATURES = 10
MADE_RECORDS = 20_000
ADULT = "max_norm: 1.0, scale: unit"
ROWS: list[tuple[str, str, tuple[float | str, ...]]] = [
    ("auto", "joint", (*EPSILONS, "none")),
    ("auto", "adassp", EPSILONS),
    ("257", "joint", (0.1,)),
    ("31", "joint", (1.0,)),
]
"""Ridge, method and epsilons on Adult; the numbers are half of what auto takes."""


def spec_text(data: Path, records: int, classes: str, learner: str, epsilon: float | str) -> str:
    """Return the spec of one row."""
    budget = "none" if epsilon == "none" else f"{{epsilon: {epsilon}, delta: 1.0e-5}}"
    return f"""
version: 1
name: regression
data: {{kind: npz, path: {data}, {classes} records: {records}, holdout: public, split: {{train: 1.0, val: 0.0, test: 0.0}}}}
model: logistic
learner: {{kind: linear_regression, {learner}}}
budget: {budget}
"""


def trained(folder: Path, records: Records, learner: str, epsilon: float | str) -> Iterator[Path]:
    """Return the directories of run after run, each with noise of its own."""
    np.savez(folder / "records.npz", x=records[0], y=records[1])
    classes = "classes: 2," if records[1].dtype.kind == "i" else ""
    text = spec_text(folder / "records.npz", len(records[0]), classes, learner, epsilon)
    (folder / "spec.yaml").write_text(text)
    return repeated(folder / "spec.yaml")


def measured(
    records: Records,
    learner: str,
    epsilon: float | str,
    score: Callable[[Path], float],
    seeds: int,
) -> str:
    """Return mean and standard deviation of a score over runs, as two cells."""
    with tempfile.TemporaryDirectory() as name:
        runs = trained(Path(name), records, learner, epsilon)
        count = 1 if epsilon == "none" else seeds
        found = [score(run) for run in itertools.islice(runs, count)]
    return f"{statistics.mean(found):.2f} | {statistics.pstdev(found):.2f}"


def explained(run: Path, inputs: np.ndarray, targets: np.ndarray) -> float:
    """Return the share of the targets' variance that a run's model explains, in percent."""
    with torch.no_grad():
        outputs = load_model(run)(torch.from_numpy(inputs)).numpy()[:, 0]
    return float(100 * (1 - ((outputs - targets) ** 2).mean() / targets.var()))


def adult(folder: Path, seeds: int) -> None:
    """Print test accuracies on UCI Adult."""
    records = read(folder / "adult.data.gz")
    test = read(folder / "adult.test.gz")
    print("| Adult, method | epsilon | ridge | test % | spread |\n|---|---|---|---|---|")
    for ridge, method, epsilons in ROWS:
        for epsilon in epsilons:
            learner = f"{ADULT}, method: {method}, ridge: {ridge}"
            cells = measured(
                records, learner, epsilon, lambda run: 100 * accuracy(run, *test), seeds
            )
            print(f"| {method} | {epsilon} | {ridge} | {cells} |", flush=True)


def made(records: int) -> tuple[Records, np.ndarray]:
    """Return a regression whose weights are known: unit-variance signal, noise of 0.5."""
    generator = np.random.default_rng(0)
    weights = generator.normal(size=MADE_FEATURES)
    weights /= np.linalg.norm(weights)
    inputs = generator.normal(size=(records, MADE_FEATURES)).astype(np.float32)
    targets = inputs @ weights + 0.3 + 0.5 * generator.normal(size=records)
    return (inputs, targets.astype(np.float32)), weights


def distance(run: Path, weights: np.ndarray) -> float:
    """Return how far a run's weights lie from the true ones, whose norm is 1."""
    found = load_model(run).state_dict()["1.weight"].numpy()[0]
    return float(np.linalg.norm(found - weights))


def synthetic(seeds: int) -> None:
    """Print how far the weights of a made regression are from the truth."""
    records, weights = made(MADE_RECORDS)
    print("| made regression, method | epsilon | distance to the true weights | spread |")
    print("|---|---|---|---|")
    for method, epsilon in [*itertools.product(METHODS, EPSILONS), ("joint", "none")]:
        learner = f"max_norm: 4.5, target_bound: 3.5, method: {method}"
        cells = measured(records, learner, epsilon, lambda run: distance(run, weights), seeds)
        print(f"| {method} | {epsilon} | {cells} |", flush=True)


def diabetes(seeds: int) -> None:
    """Print how much of the variance is explained on scikit-learn's diabetes data."""
    from sklearn.datasets import load_diabetes

    inputs, targets = load_diabetes(return_X_y=True)
    inputs = (5 * inputs).astype(np.float32)
    targets = ((targets - 150) / 100).astype(np.float32)
    tests = np.arange(len(inputs)) % 4 == 3
    print("| diabetes, method | epsilon | test R2 % | spread |\n|---|---|---|---|")
    for method, epsilon in [("joint", 1.0), ("joint", 8.0), ("adassp", 8.0), ("joint", "none")]:
        learner = f"max_norm: 1.0, target_bound: 1.5, method: {method}"
        cells = measured(
            (inputs[~tests], targets[~tests]),
            learner,
            epsilon,
            lambda run: explained(run, inputs[tests], targets[tests]),
            seeds,
        )
        print(f"| {method} | {epsilon} | {cells} |", flush=True)


def main() -> None:
    """Print all three tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=10)
    options = parser.parse_args()
    adult(options.folder, options.seeds)
    synthetic(options.seeds)
    diabetes(options.seeds)


if __name__ == "__main__":
    main()
