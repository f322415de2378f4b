"""The share of accounting and ledger in a private step: `python benchmarks/ledger.py [--threads N] [--workloads a e]`.

Real steps of the smallest reference workloads, from the sampler's draw to the optimizer's update. Counted are: asking the budget
and building the event (`accounting`), starting the row's writing and waiting for its end (`waiting`), and encoding and hashing
the row, which another thread does (`row`). `disk` is the durable write itself: it goes on while the model works, so it counts
only as far as the step waits for it. Read the median of the shares. A busy machine slows the model more than the ledger, so the
last column is against the fastest step of all. The curves for TensorBoard, which are written after a step, stand apart.
"""

from __future__ import annotations

import argparse
import functools
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import TensorDataset

from dppipe.bench.compare import machine
from dppipe.bench.workloads import WORKLOADS, Workload
from dppipe.clipper_abilities import first_state
from dppipe.clipping import Flat
from dppipe.engine import Engine
from dppipe.learners import gate as gate_module
from dppipe.learners.gate import Gate
from dppipe.learners.gating.charging import charging
from dppipe.learners.gating.upcoming import UpcomingSteps
from dppipe.learners.ranks import Ranks
from dppipe.learners.records.loader import LogicalBatch, PrivateLoader
from dppipe.learners.sgd.step import PrivateStep
from dppipe.learners.sgd.step_noise import PlannedNoise
from dppipe.noise import Constant
from dppipe.planning.privacy_plan import PrivateParts, plan_privacy
from dppipe.privacy.accountants.pld import Pld
from dppipe.privacy.budget import Budget
from dppipe.randomness.keystream import Keystream
from dppipe.randomness.streams import stream_key
from dppipe.runs import ledger as ledger_module
from dppipe.runs.curves import Curves
from dppipe.runs.ledger import Ledger
from dppipe.sampling import Poisson

WARM_UP = 3
TIMED = {
    "accounting": [
        (Gate, "charge_of"),
        (Gate, "next"),
        (PrivateStep, "goes_on"),
        (PlannedNoise, "multiplier"),
        (PlannedNoise, "charge"),
    ],
    "charge": [(Ledger, "charge")],
    "disk": [(ledger_module, "write_all")],
}
PARTS = ("accounting", "waiting", "row")


class Stopwatch:
    """Adds up the time that goes into some functions, each under a name; a function inside another of its name counts once."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._inside: set[str] = set()

    def around(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Any:
            if name in self._inside:
                return function(*args, **kwargs)
            self._inside.add(name)
            start = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start
                self._inside.discard(name)

        return timed

    @contextmanager
    def waiting(self, ledger: Ledger, charge: Any, *, writer: Any) -> Iterator[Any]:
        """Time how long it takes to get into and out of the block in whose background a step is charged."""
        block = charging(ledger, charge, writer=writer)
        written = self.around("waiting", block.__enter__)()
        try:
            yield written
        finally:
            self.around("waiting", block.__exit__)(None, None, None)

    @contextmanager
    def running(self) -> Iterator[None]:
        places = [
            (name, owner, attribute) for name, found in TIMED.items() for owner, attribute in found
        ]
        before = [getattr(owner, attribute) for _, owner, attribute in places]
        for (name, owner, attribute), function in zip(places, before, strict=True):
            setattr(owner, attribute, self.around(name, function))
        gate_module.charging = self.waiting
        try:
            yield
        finally:
            gate_module.charging = charging
            for (_, owner, attribute), function in zip(places, before, strict=True):
                setattr(owner, attribute, function)


def measure(workload: Workload, directory: Path, *, steps: int) -> list[dict[str, float]]:
    """Take steps on all records of one batch; each gives its seconds, by part."""
    torch.manual_seed(0)
    model, dataset = workload.make(), TensorDataset(*workload.batch())
    parts = PrivateParts(
        Poisson(sample_rate=1.0),
        Flat(),
        Constant(noise_multiplier=5.0),
        Pld(),
        Budget(epsilon=1e3, delta=1e-6),
    )
    plan = plan_privacy(parts, name="ledger", records=len(dataset), steps=steps + WARM_UP)
    loader = PrivateLoader(dataset, sampler=parts.sampler)
    loader.arm(plan, stream=Keystream(stream_key("sampler")), ranks=Ranks())
    optimizer, curves = torch.optim.SGD(model.parameters(), lr=1e-4), Curves(directory, plan=plan)
    taken = []
    with (
        Engine(model, workload.per_sample_loss, parts.clipping) as engine,
        Ledger.create(directory / "ledger.jsonl", plan=plan.to_json()) as ledger,
    ):
        state = first_state(parts.clipping, engine.groups.sizes)
        upcoming = UpcomingSteps(plan, parts, PlannedNoise(plan), taken=0)
        gate = Gate(ledger, upcoming, "zero_out", plan.unit)
        private = PrivateStep(parts, plan, engine, gate, upcoming, state)
        for _ in range(plan.steps):
            watch = Stopwatch()
            with watch.running():
                start = time.perf_counter()
                gradient = private(LogicalBatch(loader), place=lambda piece: piece)
                for name, parameter in model.named_parameters():
                    parameter.grad = gradient[name]
                optimizer.step()
                private.goes_on()
                whole = time.perf_counter() - start
            start = time.perf_counter()
            curves.privacy(private.taken, private.shown)
            seconds = watch.seconds | {"step": whole, "curves": time.perf_counter() - start}
            taken.append(seconds | {"row": seconds["charge"] - seconds["disk"]})
    curves.close()
    return taken[WARM_UP:]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--workloads", nargs="+", default=["a", "e"])
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument(
        "--directory",
        type=Path,
        default=Path("runs"),
        help="Where the ledger stands, on the disk to measure.",
    )
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    options.directory.mkdir(parents=True, exist_ok=True)
    print(
        f"{machine()}, {options.threads} threads, {options.steps} steps; medians in milliseconds, shares with quartiles"
    )
    names = ("step", *PARTS, "disk", "curves")
    print(
        "workload",
        *(f"{name:>10}" for name in names),
        "  share of " + ", ".join(PARTS),
        "  against the fastest step",
    )
    for workload in (one for one in WORKLOADS if one.name in options.workloads):
        with tempfile.TemporaryDirectory(dir=options.directory) as directory:
            taken = measure(workload, Path(directory), steps=options.steps)
        medians = {name: 1000 * statistics.median(one[name] for one in taken) for name in names}
        low, middle, high = statistics.quantiles(
            [100 * sum(one[name] for name in PARTS) / one["step"] for one in taken], n=4
        )
        fastest = sum(medians[name] for name in PARTS) / (10 * min(one["step"] for one in taken))
        share = f"{middle:.2f} % [{low:.2f}, {high:.2f}]"
        print(
            f"{workload.name:8}",
            *(f"{value:10.3f}" for value in medians.values()),
            f"  {share:36} {fastest:.2f} %",
        )


if __name__ == "__main__":
    main()
