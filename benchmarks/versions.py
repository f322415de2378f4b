"""Compare the step time of two versions of dppipe, in blocks of steps that take turns.

    python benchmarks/versions.py OLD_TREE NEW_TREE [--workloads image text user a b c d e]

Each version trains in a process of its own, through a Trainer and `DPCallback`. A process takes a
block of steps, then waits while the other takes one. A pair of blocks gives one ratio; the table
has the median of the ratios with their quartiles. CPU time is measured, with one thread for each
process, and freed memory is kept, as `dppipe run` keeps it. Run it on an otherwise idle machine.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PAIRS = 21
WARM_UP = 2
"""Blocks of each version that aren't counted."""
BLOCK = {"image": 20, "text": 16, "user": 150, "a": 15, "b": 15, "c": 2, "d": 3, "e": 8}
"""Steps in a block: about a second."""
KEEP_MEMORY = {
    "MALLOC_TRIM_THRESHOLD_": "4000000000",
    "MALLOC_MMAP_THRESHOLD_": "4000000000",
    "MALLOC_TOP_PAD_": "64000000",
}


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare the step time of two versions.")
    parser.add_argument("old", type=Path, help="the root of the older source tree")
    parser.add_argument("new", type=Path, help="the root of the newer source tree")
    parser.add_argument("--workloads", nargs="+", default=list(BLOCK), choices=list(BLOCK))
    parser.add_argument("--pairs", type=int, default=PAIRS)
    options = parser.parse_args()
    print("| workload | old, ms | new, ms | ratio [quartiles] |\n|---|---|---|---|", flush=True)
    for workload in options.workloads:
        print(compare(workload, options.old, options.new, pairs=options.pairs), flush=True)


def compare(workload: str, old: Path, new: Path, *, pairs: int) -> str:
    """Return one row of the table."""
    with Worker(workload, old, pairs) as first, Worker(workload, new, pairs) as second:
        olds: list[float] = []
        news: list[float] = []
        for number in range(WARM_UP + pairs):
            # The order alternates, so that neither version always comes second.
            order = (first, second) if number % 2 else (second, first)
            taken = {worker: worker.block() for worker in order}
            if number >= WARM_UP:
                olds.append(taken[first])
                news.append(taken[second])
    ratios = [after / before for before, after in zip(olds, news, strict=True)]
    low, middle, high = statistics.quantiles(ratios, n=4)
    shown = f"{statistics.median(olds):.2f} | {statistics.median(news):.2f}"
    return f"| {workload} | {shown} | {middle:.3f} [{low:.3f}, {high:.3f}] |"


class Worker:
    """A process that trains with one version, block by block."""

    def __init__(self, workload: str, tree: Path, pairs: int) -> None:
        environment = os.environ | KEEP_MEMORY | {"PYTHONPATH": str(tree), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, __file__, "--worker", workload, str(WARM_UP + pairs), str(tree)]
        self._process = subprocess.Popen(
            command, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def block(self) -> float:
        """Take a block of steps; return the milliseconds of CPU time of a step."""
        if self._process.stdin is None or self._process.stdout is None:
            raise RuntimeError("the process has no pipes")
        self._process.stdin.write("go\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("versions: a version has ended before its last block.")
        return float(json.loads(line))

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()


def work(workload: str, blocks: int, tree: Path) -> None:
    """Train; before each block of steps wait for a line of input."""
    import warnings

    warnings.filterwarnings("ignore")
    import logging

    import pytorch_lightning as pl

    import dppipe

    if not Path(dppipe.__file__).is_relative_to(tree.resolve()):
        raise SystemExit(f"versions: expected dppipe of {tree}, got {dppipe.__file__}.")
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    block = BLOCK[workload]

    class Blocks(pl.Callback):
        """Measures blocks of steps."""

        steps = 0

        def on_train_batch_start(self, trainer, module, batch, batch_idx):
            if self.steps % block == 0:
                sys.stdin.readline()
                self.start = time.process_time()

        def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
            self.steps += 1
            if self.steps % block == 0:
                taken = (time.process_time() - self.start) / block
                print(json.dumps(1000 * taken), flush=True)

    steps = block * blocks
    with tempfile.TemporaryDirectory() as place:
        private, module, dataset = parts(workload, Path(place) / "run", steps)
        pl.Trainer(
            max_steps=steps,
            max_epochs=-1,
            accelerator="cpu",
            callbacks=[private, Blocks()],
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        ).fit(module, private.loader(dataset))


def parts(workload, run_dir, steps):
    """Return callback, module and dataset of a workload."""
    import torch
    from torch.utils.data import TensorDataset

    from dppipe import Budget, DPCallback
    from dppipe.noise import Constant
    from dppipe.privacy.accountants import Rdp
    from dppipe.sampling import User, WithoutReplacement

    torch.manual_seed(1)
    if workload == "user":
        network = torch.nn.Sequential(
            torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10)
        )
        batch = (torch.randn(4096, 64), torch.randint(0, 10, (4096,)))
        loss = classify
    else:
        network, batch, loss = networks(workload)
    rows = len(batch[0])
    dataset = TensorDataset(*(torch.cat([part, part]) for part in batch))
    relation = "replace_one"
    sampler = WithoutReplacement(expected_batch_size=rows, physical_batch_size=rows)
    if workload == "user":
        dataset = TensorDataset(*batch)
        dataset.users = [index // 4 for index in range(4096)]
        relation = "zero_out"
        sampler = User(sample_rate=1 / 16, physical_batch_size=512)
    private = DPCallback(
        sampler=sampler,
        noise=Constant(noise_multiplier=10.0),
        accountant=Rdp(),
        budget=Budget(epsilon=500.0, delta=1e-6, relation=relation),
        run_dir=run_dir,
    )
    return private, module_of(network, loss), dataset


def networks(workload):
    """Return network, one batch of made-up rows, and the loss of each row."""
    import torch

    from dppipe.bench.workloads import WORKLOADS, Transformer, cnn

    if workload == "image":
        return cnn(), (torch.randn(256, 1, 28, 28), torch.randint(0, 10, (256,))), classify
    if workload == "text":
        lengths = torch.randint(8, 33, (32, 1))
        ids = torch.randint(1, 500, (32, 32)) * (torch.arange(32) < lengths)
        network = Transformer(words=500, size=64, layers=2, positions=32)
        return network, (ids, torch.randint(1, 500, (32, 32))), masked
    found = next(one for one in WORKLOADS if one.name == workload)
    return found.make(), found.batch(), found.per_sample_loss


def classify(network, batch):
    import torch.nn.functional as F

    return F.cross_entropy(network(batch[0]), batch[1], reduction="none")


def masked(network, batch):
    """Return the mean loss over the positions of a row that aren't padding."""
    import torch.nn.functional as F

    ids, targets = batch
    logits = network(ids)
    losses = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none")
    mask = (ids > 0).to(losses)
    return (losses.view_as(mask) * mask).sum(1) / mask.sum(1).clamp(min=1)


def module_of(network, loss):
    """Return a LightningModule with `per_sample_loss`."""
    import pytorch_lightning as pl
    import torch

    class Module(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.network = network

        def forward(self, inputs):
            return self.network(inputs)

        def per_sample_loss(self, batch):
            return loss(self.network, batch)

        def training_step(self, batch, batch_idx):
            return loss(self.network, batch).mean()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=1e-4)

    return Module()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        work(sys.argv[2], int(sys.argv[3]), Path(sys.argv[4]))
    else:
        main()
