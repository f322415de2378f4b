"""Measure the memory of one contender in this process; `measure.py` starts it with JSON."""

from __future__ import annotations

import json
import sys
from typing import Any

import torch

from dppipe.bench.compare import workload_of
from dppipe.bench.measure import peak_megabytes
from dppipe.bench.steps import make_step
from dppipe.engine.allocator import keep_freed_memory


def weigh(arguments: dict[str, Any]) -> float:
    """Return the megabytes that a contender's steps take above model and batch."""
    keep_freed_memory()
    torch.set_num_threads(arguments["threads"])
    workload, clipper = workload_of(arguments["subject"])
    torch.manual_seed(0)
    model = workload.make()
    batch = workload.batch()
    return peak_megabytes(
        lambda: make_step(arguments["contender"], workload, model, batch, clipper=clipper)
    )


if __name__ == "__main__":
    sys.stdout.write(f"{weigh(json.loads(sys.argv[1]))}\n")
