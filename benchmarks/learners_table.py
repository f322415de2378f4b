"""Which learner where: every learner beside DP-SGD on five tasks, at three budgets.

    python benchmarks/learners_table.py run FOLDER RESULTS.jsonl [--tasks adult digits ...]
    python benchmarks/learners_table.py show RESULTS.jsonl [--json TABLE.json] [--plot PICTURE.png]

FOLDER holds `adult/`, `MNIST/raw` and `FashionMNIST/raw` as they are published. Every arm of a task, DP-SGD's too, has the same
number of settings. Each is tried by one private run on four fifths of the training records and scored on the rest; the best one
is then run SEEDS times on all of them, and scored on test records that no run has seen. The choice of a setting isn't charged:
in practice it would have to be. Runs that RESULTS has already are not repeated, so the command can be stopped and started again.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import re
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from learners_adult import read as read_adult

from dppipe.pipeline.load import load_model
from dppipe.pipeline.run import run_spec
from dppipe.planning.privacy_plan import make_plan
from dppipe.spec.load import load_spec

EPSILONS = (0.1, 1.0, 3.0)
DELTA = 1e-5
SEEDS = 5
TUNED_SHARE = 0.8
Arrays = tuple[np.ndarray, np.ndarray]
Settings = Callable[[float], list[str]]
"""The settings of an arm at an epsilon: each is the text of a spec's blocks."""


@dataclass(frozen=True)
class Task:
    """Records, how they are scored, and the arms that are compared on them."""

    name: str
    load: Callable[[Path], tuple[Arrays, Arrays]]
    """Returns training and test records."""
    data: str
    """What the data block says beside the file."""
    arms: dict[str, Settings]
    records: int
    """Training records."""
    weights: int
    """Of the linear model that all arms but PATE train."""
    score: str = "accuracy"
    has_public: bool = False
    """Whether every second test input is public, without its label, for PATE; no arm is scored on
    these. (The halves of MNIST's test file come from different people.)"""


def logistic(learner: str) -> str:
    return f"model: logistic\nlearner: {learner}"


def objective(*numerators: float, loss: str = "auto") -> Settings:
    """Lambda in units of 1/epsilon."""

    def at(epsilon: float) -> list[str]:
        found = []
        for numerator in numerators:
            options = f"max_norm: 1.0, loss: {loss}, regularization: {numerator / epsilon:.6g}"
            found.append(logistic(f"{{kind: objective_perturbation, {options}}}"))
        return found

    return at


def output(*lambdas: float) -> Settings:
    def at(epsilon: float) -> list[str]:
        found = []
        for number in lambdas:
            options = f"max_norm: 1.0, regularization: {number}"
            found.append(logistic(f"{{kind: output_perturbation, {options}}}"))
        return found

    return at


def regression(*methods: str, bound: str = "") -> Settings:
    """A method, or a factor on the ridge that `auto` takes, which follows from epsilon."""

    def at(epsilon: float) -> list[str]:
        found = []
        for method in methods:
            name, _, factor = method.partition(" ridge x ")
            ridge = f", ridge: {factor} RIDGE" if factor else ""
            options = f"method: {name}, max_norm: 1.0{bound}{ridge}"
            found.append(logistic(f"{{kind: linear_regression, {options}}}"))
        return found

    return at


def aggregate(*blocks: int, radius: float) -> Settings:
    def at(epsilon: float) -> list[str]:
        found = []
        for count in blocks:
            inner = "inner: {kind: logistic_ridge, regularization: 1.0}"
            options = f"blocks: {count}, radius: {radius}, {inner}"
            found.append(logistic(f"{{kind: subsample_aggregate, {options}}}"))
        return found

    return at


def pate(*queries: int, teachers: int) -> Settings:
    def at(epsilon: float) -> list[str]:
        found = []
        for count in queries:
            options = f"teachers: {teachers}, queries: {count}, public: PUBLIC"
            found.append(f"learner: {{kind: pate, {options}}}")
        return found

    return at


def dp_sgd(*settings: tuple[int, float]) -> Settings:
    """Steps and learning rate of full-batch DP-SGD on a linear model."""

    def at(epsilon: float) -> list[str]:
        found = []
        for steps, rate in settings:
            found.append(
                "model: logistic\n"
                f"optimizer: {{kind: sgd, lr: {rate}}}\nsampler: full_batch\n"
                "clipping: {kind: flat, max_grad_norm: 1.0}\n"
                f"train: {{steps: {steps}, validate_every: {steps}}}"
            )
        return found

    return at


def unit(inputs: np.ndarray) -> np.ndarray:
    """Return rows of norm 1."""
    return inputs / np.maximum(np.linalg.norm(inputs, axis=1, keepdims=True), 1e-12)


def adult(folder: Path) -> tuple[Arrays, Arrays]:
    parts = []
    for name in ("adult.data.gz", "adult.test.gz"):
        inputs, labels = read_adult(folder / "adult" / name)
        parts.append((unit(inputs), labels))
    return parts[0], parts[1]


def adult_age(folder: Path) -> tuple[Arrays, Arrays]:
    """The age, from the other columns and the income: (age - 40) / 60, which lies in [-1, 1]."""
    parts = []
    for name in ("adult.data.gz", "adult.test.gz"):
        inputs, labels = read_adult(folder / "adult" / name)
        target = inputs[:, :1] / 3  # the first column is (age - 40) / 20
        others = np.concatenate([inputs[:, 2:], labels[:, None]], 1).astype(np.float32)
        parts.append((unit(others), target))
    return parts[0], parts[1]


def digits(folder: Path) -> tuple[Arrays, Arrays]:
    from sklearn.datasets import load_digits

    found = load_digits()
    order = np.random.default_rng(0).permutation(len(found.target))
    inputs = unit(found.data.astype(np.float32))[order]
    labels = found.target[order].astype(np.int64)
    return (inputs[:1437], labels[:1437]), (inputs[1437:], labels[1437:])


def images(name: str) -> Callable[[Path], tuple[Arrays, Arrays]]:
    def load(folder: Path) -> tuple[Arrays, Arrays]:
        parts = []
        for split in ("train", "t10k"):
            place = folder / name / "raw"
            pixels = gzip.decompress((place / f"{split}-images-idx3-ubyte.gz").read_bytes())
            classes = gzip.decompress((place / f"{split}-labels-idx1-ubyte.gz").read_bytes())
            inputs = np.frombuffer(pixels, np.uint8, offset=16).reshape(-1, 1, 28, 28)
            labels = np.frombuffer(classes, np.uint8, offset=8).astype(np.int64)
            parts.append(((inputs / 255).astype(np.float32), labels))
        return parts[0], parts[1]

    return load


HISTOGRAMS = "classes: 10, features: {kind: orientation_histograms}"
IMAGE_ARMS: dict[str, Settings] = {
    "objective_perturbation": objective(10.0, 30.0),
    "linear_regression": regression("joint", "joint ridge x 0.5"),
    "pate": pate(200, 1600, teachers=250),
    "dp_sgd": dp_sgd((50, 30.0), (100, 30.0)),
}
TABLE_ARMS = ("joint", "joint ridge x 0.5", "joint ridge x 0.25", "adassp")
TASKS = [
    Task(
        "adult",
        adult,
        "classes: 2",
        {
            "objective_perturbation": objective(0.3, 1.0, 3.0, 10.0),
            "output_perturbation": output(10.0, 30.0, 100.0, 300.0),
            "linear_regression": regression(*TABLE_ARMS),
            "subsample_aggregate": aggregate(10, 30, 100, 300, radius=5.0),
            "dp_sgd": dp_sgd((60, 4.0), (60, 16.0), (200, 4.0), (200, 16.0)),
        },
        records=32561,
        weights=70,
    ),
    Task(
        "adult, age",
        adult_age,
        "",
        {
            "objective_perturbation": objective(2.0, 4.0, 10.0, 30.0, loss="huber"),
            "linear_regression": regression(*TABLE_ARMS, bound=", target_bound: 1.0"),
            "dp_sgd": dp_sgd((60, 0.1), (60, 0.4), (200, 0.1), (200, 0.4)),
        },
        records=32561,
        weights=69,
        score="R2",
    ),
    Task(
        "digits",
        digits,
        "classes: 10",
        {
            "objective_perturbation": objective(3.0, 10.0, 30.0, 100.0),
            "output_perturbation": output(10.0, 30.0, 100.0, 300.0),
            "linear_regression": regression(*TABLE_ARMS),
            "dp_sgd": dp_sgd((30, 4.0), (30, 16.0), (100, 4.0), (100, 16.0)),
        },
        records=1437,
        weights=650,
    ),
    Task("mnist", images("MNIST"), HISTOGRAMS, IMAGE_ARMS, 60000, 5130, has_public=True),
    Task(
        "fashion_mnist",
        images("FashionMNIST"),
        HISTOGRAMS,
        IMAGE_ARMS,
        60000,
        5130,
        has_public=True,
    ),
]


class Results:
    """The runs that were made, one line each in a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.rows: list[dict[str, Any]] = []
        if path.exists():
            for line in path.read_text().splitlines():
                self.rows.append(json.loads(line))

    def scores(self, **facts: Any) -> list[float]:
        """Return the scores of the runs with these facts."""
        found = []
        for row in self.rows:
            if all(row[name] == value for name, value in facts.items()):
                found.append(row["score"])
        return found

    def add(self, row: dict[str, Any]) -> None:
        self.rows.append(row)
        with self._path.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(json.dumps(row), flush=True)


@dataclass(frozen=True)
class Study:
    """One task under way: its files are in a folder of its own."""

    task: Task
    results: Results
    folder: Path
    train: Arrays
    test: Arrays

    def run(self) -> None:
        if self.task.has_public:
            np.savez(self.folder / "public.npz", x=self.test[0][::2])
        for epsilon in EPSILONS:
            for arm, settings in self.task.arms.items():
                self.cell(arm, epsilon, settings(epsilon))

    def cell(self, arm: str, epsilon: float, settings: list[str]) -> None:
        """Choose one of the settings, and run it on all training records."""
        cut = int(TUNED_SHARE * len(self.train[0]))
        order = np.random.default_rng(1).permutation(len(self.train[0]))
        seen, unseen = order[:cut], order[cut:]
        facts = {"task": self.task.name, "arm": arm, "epsilon": epsilon}
        for setting in settings:
            if not self.results.scores(**facts, stage="choice", setting=setting):
                records = (self.train[0][seen], self.train[1][seen])
                held = (self.train[0][unseen], self.train[1][unseen])
                self.one(records, held, {**facts, "stage": "choice", "setting": setting})
        best = chosen(self.results, facts)
        done = len(self.results.scores(**facts, stage="final", setting=best))
        for _ in range(done, SEEDS):
            kept = slice(1, None, 2) if self.task.has_public else slice(None)
            scored = (self.test[0][kept], self.test[1][kept])
            self.one(self.train, scored, {**facts, "stage": "final", "setting": best})

    def one(self, records: Arrays, scored: Arrays, facts: dict[str, Any]) -> None:
        """Make one run, and note its score."""
        np.savez(self.folder / "train.npz", x=records[0], y=records[1])
        text = self.spec_text(facts["setting"], facts["epsilon"], len(records[0]))
        path = self.folder / "spec.yaml"
        path.write_text(with_ridge(text, path))
        start = time.process_time()
        with tempfile.TemporaryDirectory() as name:
            spec = load_spec(path)
            run_spec(spec, make_plan(spec), run_dir=Path(name) / "run")
            seconds = time.process_time() - start
            score = self.score(Path(name) / "run", scored)
        self.results.add({**facts, "score": score, "seconds": round(seconds, 1)})

    def spec_text(self, setting: str, epsilon: float, count: int) -> str:
        public = f"{{kind: npz, path: {self.folder}/public.npz}}"
        split = "holdout: public, split: {train: 1.0, val: 0.0, test: 0.0}"
        stated = f"records: {count}, {split}" + f", {self.task.data}" * bool(self.task.data)
        return (
            "version: 1\nname: table\n"
            f"data: {{kind: npz, path: {self.folder}/train.npz, {stated}}}\n"
            f"budget: {{epsilon: {epsilon}, delta: {DELTA}}}\n"
            f"{setting.replace('PUBLIC', public)}\n"
        )

    def score(self, run: Path, scored: Arrays) -> float:
        model = load_model(run)
        with torch.no_grad():
            parts = [model(part) for part in torch.from_numpy(scored[0]).split(1000)]
        outputs = torch.cat(parts).reshape(len(scored[0]), -1).numpy()
        targets = scored[1]
        if self.task.score == "R2":
            left = ((outputs - targets) ** 2).sum() / ((targets - targets.mean(0)) ** 2).sum()
            return float(1 - left)
        predicted = outputs.argmax(1) if outputs.shape[1] > 1 else outputs[:, 0] > 0
        return float((predicted == targets).mean())


def with_ridge(text: str, path: Path) -> str:
    """Return a spec with its ridge as a number: a factor times what `auto` takes."""
    found = re.search(r"ridge: ([0-9.]+) RIDGE", text)
    if found is None:
        return text
    path.write_text(text.replace(found[0], "ridge: auto"))
    spec = load_spec(path)
    noise = make_plan(spec).releases[0].facts
    width = math.prod(spec.public_facts().input_shape) + 1
    std = float(noise["noise_multiplier"]) * float(noise["sensitivity"])
    number = float(found[1]) * std * math.sqrt(2 * width)
    return text.replace(found[0], f"ridge: {number:.6g}")


def chosen(results: Results, facts: dict[str, Any]) -> str:
    """Return the setting of a cell with the best score on records that its run didn't see."""
    best, best_score = "", -math.inf
    for row in results.rows:
        same = all(row[name] == value for name, value in facts.items())
        if same and row["stage"] == "choice" and row["score"] > best_score:
            best, best_score = row["setting"], row["score"]
    return best


def table(results: Results) -> Iterator[dict[str, Any]]:
    """Yield a row for each cell that has its final runs, where DP-SGD has them too."""
    for task in TASKS:
        for arm in task.arms:
            for epsilon in EPSILONS:
                facts = {"task": task.name, "arm": arm, "epsilon": epsilon}
                best = chosen(results, facts)
                scores = results.scores(**facts, stage="final", setting=best)
                beside = results.scores(
                    task=task.name, arm="dp_sgd", epsilon=epsilon, stage="final"
                )
                if len(scores) >= SEEDS and len(beside) >= SEEDS:
                    yield {
                        "task": task.name,
                        "records": task.records,
                        "weights": task.weights,
                        "learner": arm,
                        "epsilon": epsilon,
                        "delta": DELTA,
                        "score": task.score,
                        "mean": round(statistics.mean(scores), 4),
                        "spread": round(statistics.pstdev(scores), 4),
                        "runs": len(scores),
                        "settings_tried": len(task.arms[arm](epsilon)),
                        "setting": best,
                        "choice": "by one run each on held-out training records; not charged",
                    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run")
    run.add_argument("folder", type=Path)
    run.add_argument("results", type=Path)
    run.add_argument("--tasks", nargs="+", choices=[task.name for task in TASKS])
    show = commands.add_parser("show")
    show.add_argument("results", type=Path)
    show.add_argument("--json", type=Path)
    show.add_argument("--plot", type=Path)
    options = parser.parse_args()
    results = Results(options.results)
    if options.command == "show":
        write(list(table(results)), options)
        return
    for task in TASKS:
        if options.tasks and task.name not in options.tasks:
            continue
        train, test = task.load(options.folder)
        with tempfile.TemporaryDirectory() as name:
            Study(task, results, Path(name), train, test).run()


def write(rows: list[dict[str, Any]], options: argparse.Namespace) -> None:
    """Print the table, and write it as data and as a picture."""
    print("| task | learner | epsilon 0.1 | 1 | 3 |\n|---|---|---|---|---|")
    for task in TASKS:
        for arm in task.arms:
            cells = [f"{task.name} | `{arm}`"]
            for epsilon in EPSILONS:
                cells.append(shown(rows, task.name, arm, epsilon))
            print(f"| {' | '.join(cells)} |")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    if options.plot:
        draw(rows, options.plot)


def shown(rows: list[dict[str, Any]], task: str, arm: str, epsilon: float) -> str:
    for row in rows:
        if (row["task"], row["learner"], row["epsilon"]) == (task, arm, epsilon):
            return f"{100 * row['mean']:.1f} +- {100 * row['spread']:.1f}"
    return ""


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Draw a panel for each task: error against epsilon, a line for each learner."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    arms = sorted({row["learner"] for row in rows})
    colours = dict(zip(arms, pyplot.get_cmap("tab10").colors, strict=False))
    names = [task.name for task in TASKS if any(row["task"] == task.name for row in rows)]
    figure, axes = pyplot.subplots(1, len(names), figsize=(3.2 * len(names), 3.4), squeeze=False)
    for axis, name in zip(axes[0], names, strict=True):
        for arm in arms:
            found = [row for row in rows if row["task"] == name and row["learner"] == arm]
            if found:
                axis.errorbar(
                    [row["epsilon"] for row in found],
                    [100 - 100 * row["mean"] for row in found],
                    yerr=[100 * row["spread"] for row in found],
                    label=arm,
                    color=colours[arm],
                    marker="o",
                    linewidth=2.5 if arm == "dp_sgd" else 1.5,
                )
        axis.set_xscale("log")
        axis.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
        axis.tick_params(axis="x", which="minor", bottom=False)
        unit = "100 - R2 in %" if "age" in name else "test error, %"
        axis.set_title(f"{name}: {unit}", fontsize=10)
        axis.set_xlabel("epsilon")
        axis.set_yscale("log")
        axis.yaxis.set_major_formatter("{x:g}")
        axis.yaxis.set_minor_formatter("{x:g}")
        axis.tick_params(axis="y", which="both", labelsize=8)
        axis.grid(alpha=0.3)
    handles = {}
    for axis in axes[0]:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            handles[label] = handle
    figure.legend(handles.values(), handles.keys(), loc="lower center", ncols=6, fontsize=9)
    figure.tight_layout(rect=(0, 0.1, 1, 1))
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main()
