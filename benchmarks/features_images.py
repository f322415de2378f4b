"""A softmax regression on features of images: `python benchmarks/features_images.py FOLDER [--rows none,3.0]`.

FOLDER holds MNIST's four files, or those of a set with the same layout. Each row is a whole `dppipe run` on the whole training
file; accuracy is that of the test file. Lambda is a number of the table, chosen beforehand.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from dppipe.pipeline.evaluate import evaluate_run
from dppipe.pipeline.run import run_spec
from dppipe.planning.privacy_plan import make_plan
from dppipe.spec.load import load_spec

HISTOGRAMS = "{kind: orientation_histograms}"
PCA = "{kind: pca, components: 60, max_norm: 9.0, budget_share: 0.2}"
ROWS: list[tuple[str, str, str, float]] = [
    (HISTOGRAMS, "output_perturbation", "none", 3.0),
    (HISTOGRAMS, "output_perturbation", "none", 1.5),
    (HISTOGRAMS, "objective_perturbation", "3.0", 3.0),
    (HISTOGRAMS, "objective_perturbation", "1.0", 10.0),
    (PCA, "output_perturbation", "none", 3.0),
    (PCA, "objective_perturbation", "3.0", 3.0),
]
"""Features, learner, epsilon (delta 1e-5) and lambda."""


def spec_text(folder: Path, features: str, learner: str, epsilon: str, lam: float) -> str:
    """Return the spec of one row."""
    budget = "none" if epsilon == "none" else f"{{epsilon: {epsilon}, delta: 1.0e-5}}"
    return f"""
version: 1
name: features
data: {{kind: idx, root: {folder}, holdout: public, split: {{train: 1.0, val: 0.0}}, features: {features}}}
model: logistic
learner: {{kind: {learner}, max_norm: 1.0, scale: unit, regularization: {lam}}}
budget: {budget}
"""


def main() -> None:
    """Run every row that was asked for, and print its accuracy."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--features", help="Other features than those of the table.")
    parser.add_argument("--rows", default="none,3.0,1.0", help="The epsilons of the rows to run.")
    options = parser.parse_args()
    wanted = options.rows.split(",")
    print("| features | learner | epsilon | lambda | test % | seconds |\n|---|---|---|---|---|---|")
    for features, learner, epsilon, lam in ROWS:
        if epsilon not in wanted or (options.features and features != HISTOGRAMS):
            continue
        chosen = options.features or features
        with tempfile.TemporaryDirectory() as name:
            path = Path(name) / "spec.yaml"
            path.write_text(spec_text(options.folder, chosen, learner, epsilon, lam))
            spec = load_spec(path)
            start = time.perf_counter()
            run_spec(spec, make_plan(spec), run_dir=Path(name) / "run")
            spent = time.perf_counter() - start
            score = 100 * evaluate_run(Path(name) / "run")["test/accuracy"]
        print(
            f"| `{chosen}` | {learner} | {epsilon} | {lam:g} | {score:.2f} | {spent:.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
