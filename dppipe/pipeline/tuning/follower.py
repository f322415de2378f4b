"""A process that takes part in one run of a search, and then ends.

It reads from a pipe what the run is, computes its share of each step, and writes, charges and draws
nothing. It ends with the process that has started it: the pipe is closed then.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from typing import BinaryIO

from dppipe.data.base import split_records
from dppipe.learners.inputs.model_inputs import released_transforms, transformed_part
from dppipe.learners.records.silenced_output import silenced
from dppipe.pipeline.paid import Paid
from dppipe.pipeline.run import run_paid
from dppipe.pipeline.tuning.processes import READY
from dppipe.planning.step_plan import plan_from_json
from dppipe.runs.directory import RunDirectory
from dppipe.spec.load import spec_from_text


def follow(told: dict[str, str | None], *, answer: BinaryIO) -> None:
    """Take part in the run that this process was told of.

    Args:
        told: The run, as `processes.py` writes it.
        answer: Where to say that all is ready.
    """
    plugins = told["plugins"]
    spec = spec_from_text(
        str(told["spec"]), name="spec", plugins=None if plugins is None else Path(plugins)
    )
    plan = plan_from_json(str(told["plan"]).encode())
    search = RunDirectory(Path(str(told["run"])))
    raw = split_records(spec.data, seed=spec.seed, by=plan.splits_by)
    train = transformed_part(raw.train, released_transforms(spec.data, search))
    paid = Paid(str(told["row"]), raw._replace(train=train, val=None, test=None), search)
    resumed = told["resume"]
    answer.write(READY)
    answer.flush()
    run_paid(
        spec,
        plan,
        run_dir=None,
        resume=None if resumed is None else RunDirectory(Path(resumed)),
        paid=paid,
    )


def _end_with(pipe: BinaryIO) -> None:
    """End this process once the other end of a pipe is closed."""
    pipe.read()
    os._exit(1)


def main() -> None:
    """Read what to run from the standard input."""
    told = json.loads(sys.stdin.buffer.readline())
    threading.Thread(target=_end_with, args=(sys.stdin.buffer,), daemon=True).start()
    answer = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # nothing of the run may be heard of
    with silenced():
        follow(told, answer=answer)


if __name__ == "__main__":
    main()
