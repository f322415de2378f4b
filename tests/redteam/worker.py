"""Cases on two processes, and what each process does: one run on its rank.

The processes are forked from a server that has loaded everything, so that they start at once. What each rank has seen is left
in the folder of the pair as `WHICH-RANK.pickle`; the second run replays what the first has left.
"""

from __future__ import annotations

import faulthandler
import os
import pickle
from pathlib import Path

import torch
from redteam import mistakes, modules, texts
from redteam.coupling import Trace
from redteam.neighbours import pair, user_pair
from redteam.running import Case, Command, Fit, watched

import dppipe
from dppipe.sampling import User

STUCK_AFTER = 100.0
"""Seconds after which a rank says where it stands, in `WHICH-RANK.stacks`."""
TWO = ("train.devices=2", "train.accelerator=cpu")
DEVICES = {"devices": 2, "accelerator": "cpu", "logger": False}


def own(module, **private) -> Fit:
    """Return a fit on two processes."""
    return Fit(module, trainer=DEVICES | {"strategy": dppipe.PrivateDDP()}, private=private)


USERS = User(sample_rate=0.6, expected_batch_size=4, physical_batch_size=8)
CASES = {
    "spec, zero_out": lambda: Case(Command(TWO), lambda: pair("large")),
    "spec, add_remove": lambda: Case(Command(TWO), lambda: pair("large", "add_remove")),
    "spec, secure, replace_one": lambda: Case(
        Command((*TWO, "noise.secure=true")), lambda: pair("large", "replace_one")
    ),
    "item3 spec, cannot be read": lambda: Case(Command(TWO), lambda: pair("cannot_be_read")),
    "own, per_sample_loss": lambda: Case(own(modules.Offering), lambda: pair("large")),
    "own, dictionaries": lambda: Case(own(texts.Reading), lambda: pair("large", sentences=True)),
    "own, users": lambda: Case(
        own(modules.Offering, sampler=USERS), lambda: user_pair("large", "zero_out")
    ),
    "item1 own, losses kept": lambda: Case(own(mistakes.KeepingElsewhere), lambda: pair("large")),
    "item5 own, dropout": lambda: Case(own(modules.Dropping), lambda: pair("large")),
    "item3 own, label out of range": lambda: Case(
        own(modules.Ordinary), lambda: pair("label_out_of_range")
    ),
}


def run_rank(name: str, which: str, rank: int, port: int, folder: str) -> None:
    """Run a case once on this rank, in the working directory of the pair, and leave what was seen."""
    with Path(folder, f"{which}-{rank}.stacks").open("w") as stacks:
        faulthandler.dump_traceback_later(STUCK_AFTER, file=stacks)
        _run_rank(name, which, rank, port, folder)
        faulthandler.cancel_dump_traceback_later()


def _run_rank(name: str, which: str, rank: int, port: int, folder: str) -> None:
    os.environ |= {"LOCAL_RANK": str(rank), "NODE_RANK": "0", "WORLD_SIZE": "2"}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    os.chdir(Path(folder, "now"))
    torch.set_num_threads(1)
    case = CASES[name]()
    both = case.pair()
    replay: Trace | None = None
    if which == "second":
        replay = pickle.loads(Path(folder, f"first-{rank}.pickle").read_bytes()).trace
    data = both.first if which == "first" else both.second
    seen = watched(case.run, data, relation=both.relation, replay=replay, empty_row=both.empty_row)
    Path(folder, f"{which}-{rank}.pickle").write_bytes(pickle.dumps(seen))
