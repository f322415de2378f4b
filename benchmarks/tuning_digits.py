"""What a private search buys on digits: the tuned model beside the default and the whole grid.

    python benchmarks/tuning_digits.py run RESULTS.jsonl
    python benchmarks/tuning_digits.py show RESULTS.jsonl

Four arms, each at epsilon 3 and delta 1e-5, repeated over SEEDS splits of the 1,797 images:

- search: `pipelines/tuning/digits.yaml`; epsilon 3 pays for all of its runs.
- default: `pipelines/quickstart.yaml`, one run.
- grid: each of the search's six settings once at epsilon 3, and the best of them. Nobody has
  counted what the choice costs: six runs that are looked at cost about 8, not 3.
- blind: the mean over these six, which is what a setting that was drawn by chance reaches.

Every arm trains on seven tenths of the images. The best run is chosen by the public holdout, a
tenth. The accuracy that is shown is that on the last two tenths, which chose nothing. Runs that
RESULTS has already are not repeated, so the command can be stopped and started again.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dppipe.pipeline.evaluate import evaluate_run
from dppipe.pipeline.run import run_spec
from dppipe.pipeline.tuning.search import run_search
from dppipe.planning.privacy_plan import make_plan, make_step_plan, run_parts
from dppipe.planning.tuning.make_tune_plan import make_tune_plan
from dppipe.privacy.accountants import Pld
from dppipe.spec.load import load_spec

SEEDS = 10
LEARNING_RATES = (0.1, 0.25, 0.5)
BOUNDS = (0.5, 1.0)
SPLIT = "data.split={train: 0.7, val: 0.1, test: 0.2}"
SEARCH = Path("pipelines/tuning/digits.yaml")
DEFAULT = Path("pipelines/quickstart.yaml")
ARMS = ("search", "default", "grid", "blind")
COMPARED = (
    ("search", "default"),
    ("search", "grid"),
    ("search", "blind"),
    ("grid", "default"),
)
Row = dict[str, Any]


def arms() -> Iterator[tuple[str, Path, list[str]]]:
    """Yield each run's name, its spec and what it overrides."""
    yield "search", SEARCH, []
    yield "default", DEFAULT, []
    for rate in LEARNING_RATES:
        for bound in BOUNDS:
            changed = [f"optimizer.lr={rate}", f"clipping.max_grad_norm={bound}"]
            yield f"grid lr {rate} bound {bound}", DEFAULT, changed


def make(spec_path: Path, overrides: list[str], *, seed: int) -> Row:
    """Make one run or search, and return what is known of it."""
    spec = load_spec(spec_path, overrides=[SPLIT, f"seed={seed}", *overrides])
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "run"
        if spec.tune is None:
            outcome = run_spec(spec, make_plan(spec), run_dir=place)
        else:
            outcome = run_search(spec, make_tune_plan(spec), run_dir=place)
        if outcome is None:
            raise RuntimeError("expected the outcome of a run, got none")
        test = evaluate_run(place)["test/accuracy"]
        won = json.loads((place / "tune.json").read_text())["winner"] if spec.tune else {}
    return {
        "epsilon": outcome.to_data()["epsilon"],
        "val": outcome.metrics["val/accuracy"],
        "test": test,
        "overrides": won.get("overrides"),
    }


def read(results: Path) -> list[Row]:
    """Return the rows that were written; a line that was cut off is left out."""
    found: list[Row] = []
    for line in results.read_text().splitlines() if results.exists() else ():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


def run(results: Path) -> None:
    """Make every run that RESULTS lacks."""
    done = {(row["seed"], row["arm"]) for row in read(results)}
    for seed in range(SEEDS):
        for arm, spec_path, overrides in arms():
            if (seed, arm) in done:
                continue
            row = {"seed": seed, "arm": arm} | make(spec_path, overrides, seed=seed)
            with results.open("a") as file:
                file.write(json.dumps(row) + "\n")


def show(results: Path) -> None:
    """Print the table of the arms, and the differences split by split."""
    rows = read(results)
    tests: dict[str, list[float]] = {arm: [] for arm in ARMS}
    chosen_by: dict[str, list[float]] = {arm: [] for arm in ARMS}
    for seed in range(SEEDS):
        of_seed = {row["arm"]: row for row in rows if row["seed"] == seed}
        if len(of_seed) < len(list(arms())):
            continue
        tried = [row for arm, row in of_seed.items() if arm.startswith("grid")]
        best = max(tried, key=lambda row: row["val"])
        shown = {"search": of_seed["search"], "default": of_seed["default"], "grid": best}
        shown["blind"] = {
            name: statistics.mean(row[name] for row in tried) for name in ("val", "test")
        }
        for arm, row in shown.items():
            tests[arm].append(100 * row["test"])
            chosen_by[arm].append(100 * row["val"])
    print(f"{len(tests['search'])} splits; accuracy in percent: mean, standard deviation, range")
    for arm, found in tests.items():
        print(
            f"{arm:8} test {statistics.mean(found):.2f} {statistics.stdev(found):.2f} "
            f"({min(found):.2f} to {max(found):.2f})   holdout "
            f"{statistics.mean(chosen_by[arm]):.2f}"
        )
    for arm, other in COMPARED:
        differences = [one - two for one, two in zip(tests[arm], tests[other], strict=True)]
        error = statistics.stdev(differences) / len(differences) ** 0.5
        print(f"{arm} - {other}: {statistics.mean(differences):+.2f} (standard error {error:.2f})")
    _show_noise()


def _show_noise() -> None:
    """Print the noise of one run of each arm, and what the grid costs if all of it is counted."""
    searched = make_tune_plan(load_spec(SEARCH, overrides=[SPLIT]))
    default = load_spec(DEFAULT, overrides=[SPLIT])
    planned = make_step_plan(default)
    tried = len(LEARNING_RATES) * len(BOUNDS)
    committed = run_parts(default).committed(planned)
    every = [(event, tried * count) for event, count in committed]
    counted = Pld().compose(every, relation="zero_out").epsilon(1e-5)
    noise = searched.search.candidates[0].noise_multiplier
    print(
        f"noise multiplier of one run: search {noise:.4g}, else {planned.noise_multiplier(1):.4g}"
    )
    print(f"one run of the search: epsilon {searched.search.costs.one_run:.4g}")
    print(f"all {tried} runs of the grid, counted: epsilon {counted:.4g}")


def main() -> None:
    """Run or show."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=("run", "show"))
    parser.add_argument("results", type=Path)
    given = parser.parse_args()
    {"run": run, "show": show}[given.command](given.results)


if __name__ == "__main__":
    main()
