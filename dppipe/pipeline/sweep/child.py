"""The process of one run of a sweep: `dppipe run` or `dppipe resume`, which stops with its sweep.

    python -m dppipe.pipeline.sweep.child run SPEC --run-dir DIR

Its standard input is a pipe that the sweep's process holds open. When that process ends, by
whatever signal, the pipe ends, and the run stops after its step as it does after a SIGTERM.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
import threading


def _follow_the_sweep(fd: int) -> None:
    """Wait until the sweep's process is gone, then stop this one."""
    while os.read(fd, 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def main() -> None:
    """Run dppipe's command line, as long as the sweep's process lives."""
    # The run itself gets an empty input; nobody answers there.
    held = os.dup(0)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    threading.Thread(target=_follow_the_sweep, args=(held,), daemon=True).start()
    sys.argv[0] = "dppipe"
    runpy.run_module("dppipe", run_name="__main__", alter_sys=False)


if __name__ == "__main__":
    main()
