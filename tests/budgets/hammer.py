"""Many processes on one scope: each reserves, settles a part and logs its grants; some are killed.

Usage: hammer.py PLACE SCOPE LOGS PROCESSES ROUNDS KILLED. LOGS/<process> gets a line for each
grant, written after the call returned.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from pathlib import Path

import dp_accounting

from dppipe.budgets.store import Store
from dppipe.errors import BudgetExhausted
from dppipe.privacy.filters.filters import Commitment


def work(place: str, scope: str, log: Path, *, process: int, rounds: int) -> None:
    chance = random.Random(process)
    store = Store(place)
    with log.open("a") as file:

        def say(word: str, run_id: str, amount: float) -> None:
            file.write(f"{word} {run_id} {amount!r}\n")
            file.flush()

        for turn in range(rounds):
            run_id, count = f"run-{process}-{turn}", chance.randrange(1, 12)
            event = dp_accounting.GaussianDpEvent(chance.choice([4.0, 5.0, 7.0]))
            try:
                entry = store.reserve(
                    scope,
                    run_id,
                    Commitment([(event, count)], "zero_out", "example", 1.0, 1e-6),
                    run_dir=log.parent / run_id,
                    plan_hash="ab",
                )
            except BudgetExhausted:
                say("refused", run_id, 0.0)
                continue
            say("granted", run_id, entry.cost.amount)
            if turn == 0 or chance.random() < 0.8:  # few runs fit at once: some of them must settle
                say(
                    "settled",
                    run_id,
                    store.settle(run_id, [(event, chance.randrange(count + 1))]).cost.amount,
                )


def main(place: str, scope: str, logs: Path, *, processes: int, rounds: int, killed: int) -> None:
    children = {}
    for process in range(processes):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                work(place, scope, logs / str(process), process=process, rounds=rounds)
                code = 0
            finally:
                os._exit(code)
        children[child] = process
    chance = random.Random(1)
    for victim in chance.sample(sorted(children), killed):
        time.sleep(chance.random() / 5)
        os.kill(victim, signal.SIGKILL)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    sys.exit(any(code not in (0, -signal.SIGKILL) for code in codes))


if __name__ == "__main__":
    main(
        sys.argv[1],
        sys.argv[2],
        Path(sys.argv[3]),
        processes=int(sys.argv[4]),
        rounds=int(sys.argv[5]),
        killed=int(sys.argv[6]),
    )
