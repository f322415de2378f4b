"""One run of a case in several processes: `python worker.py CASE WHICH FOLDER`, started by the tests, and again for each rank.

What each rank has seen is left beside the run as `WHICH-RANK.pickle`; the second run replays what the first has left.
"""

from __future__ import annotations

import os
import pickle
import sys
from pathlib import Path

import modules
from coupling import Trace
from neighbours import pair, user_pair
from running import Case, Command, Fit, watched

import dppipe
from dppipe.sampling import User

TWO = ("train.devices=2", "train.accelerator=cpu")
DEVICES = {"devices": 2, "accelerator": "cpu", "logger": False}


def own(module, **private) -> Fit:
    """Return a fit on two processes."""
    return Fit(module, trainer=DEVICES | {"strategy": dppipe.PrivateDDP()}, private=private)


USERS = User(sample_rate=0.6, expected_batch_size=4, physical_batch_size=8)
CASES = {
    "spec, zero_out": lambda: Case(Command(TWO), lambda: pair("large")),
    "spec, add_remove": lambda: Case(Command(TWO), lambda: pair("large", "add_remove")),
    "spec, secure, replace_one": lambda: Case(Command((*TWO, "noise.secure=true")), lambda: pair("large", "replace_one")),
    "item3 spec, cannot be read": lambda: Case(Command(TWO), lambda: pair("cannot_be_read")),
    "own, per_sample_loss": lambda: Case(own(modules.Offering), lambda: pair("large")),
    "own, dictionaries": lambda: Case(own(modules.Reading), lambda: pair("large", sentences=True)),
    "own, users": lambda: Case(own(modules.Offering, sampler=USERS), lambda: user_pair("large", "zero_out")),
    "item1 own, losses kept": lambda: Case(own(modules.KeepingElsewhere), lambda: pair("large")),
    "item5 own, dropout": lambda: Case(own(modules.Dropping), lambda: pair("large")),
    "item3 own, label out of range": lambda: Case(own(modules.Ordinary), lambda: pair("label_out_of_range")),
}


def main() -> None:
    """Run a case once on this rank, in the working directory, and leave what was seen."""
    name, which, folder = sys.argv[1:]
    rank = os.environ.get("LOCAL_RANK", "0")
    case = CASES[name]()
    both = case.pair()
    replay: Trace | None = None
    if which == "second":
        replay = pickle.loads(Path(folder, f"first-{rank}.pickle").read_bytes()).trace
    data = both.first if which == "first" else both.second
    seen = watched(case.run, data, relation=both.relation, replay=replay, empty_row=both.empty_row)
    Path(folder, f"{which}-{rank}.pickle").write_bytes(pickle.dumps(seen))


if __name__ == "__main__":
    main()
