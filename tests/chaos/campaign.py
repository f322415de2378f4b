"""The campaign: runs of small specs that are killed again and again, and resumed until they are done.

Usage: campaign.py KILLS SEED. After each death the run directory is read as a stranger would read it; what is promised of
it stands in `inspect_end` and `inspect_done`. Ends with 1 and says which promise was broken, by which seed.
"""

from __future__ import annotations

import importlib
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from deaths import Death
from inspection import Life, finished, inspect_done, inspect_end
from lives import End, live

SPEC = """
version: 1
name: small
data:      {kind: synthetic, size: 400, features: 4, classes: 3, holdout: public}
model:     {kind: logistic}
optimizer: {kind: sgd, lr: 0.5, momentum: 0.9, schedule: {kind: cosine}}
sampler:   {kind: poisson, sample_rate: 0.05}
noise:     NOISE
accountant: {kind: rdp}
budget:    {epsilon: EPSILON, delta: 1.0e-5}
train:     {LENGTH, checkpoint_every: 7, validate_every: 20, accelerator: cpu, devices: RANKS}
"""
# Runs that end by their steps, by their budget, and with noise that changes on the way.
SPECS = [
    {"NOISE": "{kind: constant, noise_multiplier: 1.0}", "EPSILON": "20.0", "LENGTH": "steps: 60"},
    {
        "NOISE": "{kind: constant, noise_multiplier: 1.0}",
        "EPSILON": "3.2",
        "LENGTH": "until: budget",
    },
    {
        "NOISE": "{kind: step, noise_multiplier: 1.0, drops: 2, factor: 0.9, secure: true}",
        "EPSILON": "20.0",
        "LENGTH": "steps: 40",
    },
]
MEANS = ["kill"] * 4 + ["term", "interrupt", "term-kill", "interrupt-twice", "file-limit"]
MEANS_ON_A_DISK = [*MEANS, *["full-disk"] * 9]
MEANS_IN_A_PAIR = ["rank-kill"] * 6 + ["kill", "term"]
MOST_DEATHS = 8
"""After so many deaths a run is left in peace, so that it gets done."""
HEAVY = [
    "dppipe.pipeline.run",
    "dppipe.pipeline.resume",
    "dppipe.runs.verify",
    "dppipe.lightning.progress",
]


@dataclass
class Report:
    """What a campaign has seen."""

    deaths: Counter[str] = field(default_factory=Counter)
    codes: Counter[int] = field(default_factory=Counter)
    done: int = 0
    lost: int = 0
    """Steps that were charged and whose updates a death has taken."""
    released: int = 0
    charged: int = 0
    left_waiting: int = 0
    """Processes that had lost the other one and were ended by the launcher."""

    def __str__(self) -> str:
        ways = ", ".join(f"{way} {count}" for way, count in sorted(self.deaths.items()))
        codes = ", ".join(f"{code}: {count}" for code, count in sorted(self.codes.items()))
        return (
            f"{self.deaths.total()} deaths ({ways}) over {self.done} runs; exit codes of first ranks {codes}; "
            f"{self.charged} charges for {self.released} releases, {self.lost} updates lost; {self.left_waiting} left waiting"
        )


def campaign(folder: Path, *, kills: int, seed: int) -> Report:
    """Kill runs until so many have died, finish each, and check every promise on the way."""
    for name in HEAVY:
        importlib.import_module(name)
    torch.set_num_threads(1)
    report, dice = Report(), random.Random(seed)
    with small_disk(folder / "disk") as disk:
        while report.deaths.total() < kills:
            home = folder / f"run-{report.done}"
            home.mkdir()
            turn = (
                report.done % 4
            )  # two runs by themselves, one in two processes, one on a disk that gets full
            if turn == 2 and disk is not None:
                one_run(disk / "run", home=home, disk=disk, dice=dice, report=report)
                shutil.rmtree(disk / "run")
            else:
                one_run(
                    home / "run", home=home, ranks=2 if turn == 1 else 1, dice=dice, report=report
                )
            shutil.rmtree(home)
    return report


def one_run(
    run: Path,
    *,
    home: Path,
    ranks: int = 1,
    disk: Path | None = None,
    dice: random.Random,
    report: Report,
) -> None:
    """Take one run from its start to its end, through as many deaths as it meets."""
    spec = home / "spec.yaml"
    text = SPEC.replace("RANKS", str(ranks))
    for name, value in dice.choice(SPECS).items():
        text = text.replace(name, value)
    spec.write_text(text)
    life = Life(run)
    means = MEANS_IN_A_PAIR if ranks > 1 else MEANS_ON_A_DISK if disk else MEANS
    for attempt in range(MOST_DEATHS + 1):
        death = (
            Death.draw(dice, means=means, seconds=float(ranks), operations=150)
            if attempt < MOST_DEATHS
            else None
        )
        if ranks > 1 and attempt == 0:  # an instant that is always met
            death = Death("rank-kill", dice.randint(1, 30), "operation", rank=dice.randint(0, 1))
        words = (
            ["resume", str(run)]
            if (run / "ledger.jsonl").exists()
            else ["run", str(spec), "--run-dir", str(run)]
        )
        if words[0] == "run":
            shutil.rmtree(run, ignore_errors=True)
        end = live(words, run_dir=run, ranks=ranks, death=death, disk=disk)
        if disk is not None:
            (disk / "ballast").unlink(missing_ok=True)
        report.codes[end.code] += 1
        report.left_waiting += end.left_waiting
        try:
            if settled(life, end, death=death, report=report):
                return
        except AssertionError as broken:
            raise AssertionError(
                f"{broken}\nafter {words} and {death}, which ended so:\n{end}"
            ) from broken


def settled(life: Life, end: End, *, death: Death | None, report: Report) -> bool:
    """Check what a life has left behind; say whether the run is done."""
    before = replace(life)
    if end.code != 0:
        if death is None:
            raise AssertionError("a run that was left in peace didn't finish")
        report.deaths[death.means] += 1
    inspect_end(life, end, death=death)
    if not finished(life):
        return False
    inspect_done(life, end, before=before)
    report.done += 1
    report.lost += life.lost
    report.released += life.released
    report.charged += life.charged
    return True


@contextmanager
def small_disk(place: Path) -> Iterator[Path | None]:
    """Yield a file system of its own that is soon full, where this user may mount one."""
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", str(place)]
    if (
        os.geteuid() != 0
        or subprocess.run(command, capture_output=True, check=False).returncode != 0
    ):
        yield None
        return
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


def main() -> None:
    """Run a campaign of the size that the command line says."""
    kills, seed = (int(word) for word in sys.argv[1:])
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="chaos-") as folder:
        print(f"seed {seed}", flush=True)
        print(
            f"{campaign(Path(folder), kills=kills, seed=seed)}; {time.monotonic() - started:.0f} s"
        )


if __name__ == "__main__":
    main()
