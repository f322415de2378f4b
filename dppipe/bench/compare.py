"""One comparison: a spec's own model or a reference workload, by dppipe, plainly and by Opacus."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from dppipe.bench.measure import Times, peak_in_child, time_step
from dppipe.bench.steps import OPACUS_MODES, make_step, opacus_installed
from dppipe.bench.workloads import WORKLOADS, Workload
from dppipe.clipping import Flat
from dppipe.engine.allocator import keep_freed_memory
from dppipe.errors import UsageError

if TYPE_CHECKING:
    from dppipe.engine.contracts import Clips
    from dppipe.spec.spec import Spec

Subject = dict[str, Any]
"""What is benchmarked, as plain data.

That is `{"workload": name}` or `{"spec": path, "overrides": [...], "plugins": folder}`.
"""


@dataclass(frozen=True)
class Comparison:
    """The figures of one subject."""

    name: str
    title: str
    threads: int
    plain: Times
    contenders: tuple[Times, ...]

    @property
    def private(self) -> Times:
        """The figures of dppipe's own step."""
        return next(times for times in self.contenders if times.contender == "dppipe")

    def to_data(self) -> dict[str, Any]:
        """Return the figures as plain data."""
        return asdict(self)


def compare(
    subject: Subject,
    *,
    rounds: int,
    threads: int,
    opacus: bool = True,
    memory: bool = True,
    tell: Callable[[str], None] = lambda _: None,
) -> Comparison:
    """Measure the time and, where the system allows, the memory of all contenders.

    `tell` gets a line before each part that takes a while.
    """
    keep_freed_memory()
    torch.set_num_threads(threads)
    workload, clipper = workload_of(subject)
    torch.manual_seed(0)
    batch = workload.batch()
    contenders = ["plain again", "dppipe"]
    if opacus and opacus_installed():
        contenders += [f"opacus {mode}" for mode in OPACUS_MODES]
    plain = make_step("plain", workload, workload.make(), batch, clipper=clipper)
    found = []
    for contender in contenders:
        torch.manual_seed(0)
        tell(f"{workload.name}: timing {contender}, {rounds} rounds")
        try:
            step = make_step(contender, workload, workload.make(), batch, clipper=clipper)
            found.append(time_step(contender, step, plain, rounds=rounds))
        except Exception as error:  # Whatever stops a contender is its result.
            first_line = next(iter(str(error).splitlines()), "")
            reason = f"{type(error).__name__}: {first_line}"
            found.append(Times(contender, 0, 0, 0, 0, 0, failed=reason))
    if memory:
        found = [_weighed(one, subject, threads, tell=tell) for one in found]
    control, *rest = found
    return Comparison(workload.name, workload.title, threads, control, tuple(rest))


def _weighed(times: Times, subject: Subject, threads: int, *, tell: Callable[[str], None]) -> Times:
    """Return a contender's figures with the memory that it takes."""
    if times.failed:
        return times
    tell(f"{subject.get('workload', subject.get('spec'))}: weighing {times.contender}")
    contender = "plain" if times.contender == "plain again" else times.contender
    arguments = {"subject": subject, "contender": contender, "threads": threads}
    return replace(times, megabytes=peak_in_child(arguments))


def workload_of(subject: Subject) -> tuple[Workload, Clips]:
    """Return the model, batch and clipper of a subject."""
    if "workload" in subject:
        known = {workload.name: workload for workload in WORKLOADS}
        if subject["workload"] not in known:
            raise UsageError(
                f"--reference: expected letters of {''.join(known)}, got {subject['workload']!r}. "
                "Try: --reference abcde"
            )
        return known[subject["workload"]], Flat(max_grad_norm=1.0)
    from dppipe.spec.load import load_spec, placing_problems
    from dppipe.spec.yaml.files import split_files

    path = split_files(subject["spec"])
    overrides = subject.get("overrides", ())
    plugins = subject.get("plugins")
    with placing_problems(path, overrides=overrides):
        spec = load_spec(path, overrides=overrides, plugins=Path(plugins) if plugins else None)
        return spec_workload(spec), spec.clipping


def spec_workload(spec: Spec) -> Workload:
    """Return a spec's own model on made-up examples, as many as its expected batch has."""
    from dppipe.lightning.networks import network_and_loss
    from dppipe.pipeline.run import build_module

    size = spec.performance.physical_batch_size
    rows = max(1, round(spec.sampler.expected(spec.public_count())))
    rows = rows if size == "auto" else min(rows, size)
    _, loss = network_and_loss(build_module(spec, steps=1))
    return Workload(
        spec.name,
        f"{spec.model.kind} on {spec.data.kind}, batch {rows}",
        lambda: network_and_loss(build_module(spec, steps=1))[0],
        lambda: spec.data.synthetic(rows),
        loss,
    )


def geometric_mean(values: Iterable[float]) -> float:
    """Return the geometric mean of positive numbers."""
    logs = torch.tensor(list(values), dtype=torch.float64).log()
    return float(logs.mean().exp())


def machine() -> dict[str, Any]:
    """Return what the figures were taken on."""
    load: list[float] = []
    for line in _lines("/proc/loadavg"):
        load += map(float, line.split()[:3])
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "torch": torch.__version__,
        "load": load,
    }


def _processor() -> str:
    for line in _lines("/proc/cpuinfo"):
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines() if Path(path).exists() else []
