"""Measure the memory of one contender in this process; `measure.py` starts it with JSON.

Nothing heavy is imported before the process watches for the end of the one that has started it.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from contextlib import suppress
from typing import Any


def weigh(arguments: dict[str, Any]) -> float:
    """Return the megabytes that a contender's steps take above model and batch."""
    import torch

    from dppipe.bench.compare import workload_of
    from dppipe.bench.measure import peak_megabytes
    from dppipe.bench.steps import make_step
    from dppipe.engine.allocator import keep_freed_memory

    keep_freed_memory()
    torch.set_num_threads(arguments["threads"])
    workload, clipper = workload_of(arguments["subject"])
    torch.manual_seed(0)
    model = workload.make()
    batch = workload.batch()
    return peak_megabytes(
        lambda: make_step(arguments["contender"], workload, model, batch, clipper=clipper)
    )


def end_with_parent() -> None:
    """End this process when the one that has started it ends: then its input does."""

    def wait() -> None:
        with suppress(OSError, ValueError):
            while os.read(sys.stdin.fileno(), 1):
                pass
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


if __name__ == "__main__":
    end_with_parent()
    sys.stdout.write(f"{weigh(json.loads(sys.argv[1]))}\n")
