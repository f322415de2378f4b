"""Nanoseconds per value of Gaussian noise, by source, interleaved in one process: `python benchmarks/noise.py [--threads N]`.

Each fill follows a matrix product, as it follows a backward pass in training: the threads of that product still spin for some
milliseconds and take part of the machine. Read the medians as ratios to each other; a shared machine moves them all.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable

import numpy
import torch

from dppipe.randomness.gaussian import GaussianStream


def sources(values: int) -> dict[str, Callable[[], object]]:
    single, double = torch.zeros(values), torch.zeros(values, dtype=torch.float64)
    stream, secure = GaussianStream(os.urandom(32)), GaussianStream(os.urandom(32), secure=True)
    generator = numpy.random.Generator(numpy.random.PCG64DXSM())
    array = numpy.empty(values)
    return {
        "dppipe float32": lambda: stream.add_(single, std=0.5),
        "dppipe float64": lambda: stream.add_(double, std=0.5),
        "dppipe secure": lambda: secure.add_(single, std=0.5),
        "torch normal_ float32 (ends at 5.77 sd)": lambda: single.normal_(0, 0.5),
        "torch normal_ float64": lambda: double.normal_(0, 0.5),
        "numpy ziggurat float64": lambda: generator.standard_normal(out=array),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--values", type=int, default=1_860_000)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    left, right = torch.randn(256, 1024), torch.randn(1024, 1024)
    times: dict[str, list[float]] = {}
    for name_and_source in list(sources(options.values).items()) * (options.rounds + 1):
        name, fill = name_and_source
        for _ in range(3):
            left @ right
        start = time.perf_counter()
        fill()
        times.setdefault(name, []).append((time.perf_counter() - start) / options.values * 1e9)
    print(f"ns per value, {options.values} values, {options.threads} threads: median [quartiles]")
    for name, samples in times.items():
        low, middle, high = statistics.quantiles(samples[1:], n=4)
        print(f"{name:40s} {middle:7.2f} [{low:.2f}, {high:.2f}]")


if __name__ == "__main__":
    main()
