"""The error of `learner: mean` against the number of records, epsilon and the bound, as a picture.

    python benchmarks/mean_error.py docs/images/mean_error.png

Records are made up: 10 numbers each, of very different lengths. Lines are what the formula of the
error says at the noise that a plan has found; dots are whole runs of the learner.
"""

from __future__ import annotations

import math
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import pyplot as plt

import dppipe
from dppipe.pipeline.learn import run_learner
from dppipe.planning.privacy_plan import make_plan
from dppipe.spec.load import spec_from_text
from dppipe.spec.spec import Spec

WIDTH = 10
RECORDS = 3000
BOUND = 8.0
DOTS = 5
SPEC = """
version: 1
name: mean-error
data: {kind: npz, path: PATH, classes: 2, holdout: public, split: {train: 1.0, val: 0.0, test: 0.0}}
learner: {kind: mean, mechanism: MECHANISM, max_norm: BOUND}
accountant: ACCOUNTANT
budget: {epsilon: EPSILON, delta: 1.0e-9}
"""
MECHANISMS = {"gaussian": (2, "pld"), "laplace": (1, "basic")}


def made_up(records: int) -> np.ndarray:  # -> [records, WIDTH]
    """Return vectors around a mean that isn't zero, with lengths over two orders of magnitude."""
    generator = np.random.default_rng(0)
    length = np.exp(generator.normal(size=(records, 1)))
    return generator.normal(size=(records, WIDTH)) * length + 1.0


class Case:
    """One data set under one spec."""

    def __init__(self, folder: Path, records: int, epsilon: float, bound: float, kind: str) -> None:
        self.inputs = made_up(records)
        path = folder / f"{records}.npz"
        np.savez(path, x=self.inputs, y=np.zeros(records, dtype=np.int64))
        self.order, accountant = MECHANISMS[kind]
        values = {"PATH": path, "EPSILON": epsilon, "BOUND": bound}
        values |= {"MECHANISM": kind, "ACCOUNTANT": accountant}
        text = SPEC
        for name, value in values.items():
            text = text.replace(name, str(value))
        self.spec: Spec = spec_from_text(text)
        self.plan = make_plan(self.spec)
        self.folder = folder

    def expected(self) -> float:
        """Return the error by the formula: that of clipping, and that of the noise."""
        facts = self.plan.releases[0].facts
        bound = float(facts["max_norm"])
        lengths = np.linalg.norm(self.inputs, self.order, axis=1, keepdims=True)
        clipped = self.inputs * np.minimum(1, bound / lengths)
        bias = np.linalg.norm(clipped.mean(0) - self.inputs.mean(0))
        std = float(facts["noise_multiplier"]) * bound / len(self.inputs)
        std *= math.sqrt(2) if self.order == 1 else 1.0
        return float(math.hypot(bias, std * math.sqrt(WIDTH)))

    def measured(self) -> float:
        """Return the error of a run."""
        directory = Path(tempfile.mkdtemp(dir=self.folder)) / "run"
        run_learner(self.spec, self.plan, run_dir=directory)
        module: Any = dppipe.load_model(directory)
        return float(np.linalg.norm(module.mean.numpy() - self.inputs.mean(0)))


def draw(axes: Any, folder: Path, name: str, values: list[float], **fixed: Any) -> None:
    """Draw the error against one number, for both mechanisms."""
    for kind, colour in (("gaussian", "C0"), ("laplace", "C1")):
        given = {"records": RECORDS, "epsilon": 1.0, "bound": BOUND} | fixed
        cases = []
        for value in values:
            now = given | {name: int(value) if name == "records" else float(value)}
            if kind == "laplace":  # vectors have a longer L1 norm than an L2 norm
                now["bound"] *= math.sqrt(WIDTH)
            cases.append(Case(folder, now["records"], now["epsilon"], now["bound"], kind))
        axes.plot(values, [case.expected() for case in cases], color=colour, label=kind)
        places = range(0, len(values), max(1, len(values) // DOTS))
        dots = [cases[place].measured() for place in places]
        axes.plot([values[place] for place in places], dots, "o", color=colour, markersize=4)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.grid(alpha=0.3)


def main(target: Path) -> None:
    """Draw three panels and save them."""
    figure, panels = plt.subplots(1, 3, figsize=(11, 3.4), sharey=True, layout="constrained")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        draw(panels[0], folder, "records", [100, 200, 500, 1000, 2000, 5000, 10000, 20000])
        draw(panels[1], folder, "epsilon", [0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0])
        draw(panels[2], folder, "bound", [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0])
    panels[0].set(xlabel="records", ylabel="distance to the mean", title="ε = 1, bound 8")
    panels[1].set(xlabel="ε", title=f"{RECORDS} records, bound 8")
    panels[2].set(xlabel="max_norm (L2; L1 is √10 times it)", title=f"{RECORDS} records, ε = 1")
    panels[0].legend(title="lines: formula; dots: runs", fontsize=8, title_fontsize=8)
    figure.savefig(target, dpi=80)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
