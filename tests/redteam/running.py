"""Two coupled runs of one case: by `dppipe run` or in a user's own Trainer, in one directory after the other."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from redteam import staging
from redteam.comparing import Observed, Verdict, compare
from redteam.coupling import Trace, coupled
from redteam.hearing import listening
from redteam.neighbours import Pair
from redteam.outputs import files_of, plain_text, text_facts
from redteam.staging import Data
from torch.utils.data import DataLoader
from typer.testing import CliRunner

import dppipe
from dppipe.cli.app import app
from dppipe.clipping import Flat
from dppipe.noise import Constant
from dppipe.privacy.accountants.rdp import Rdp
from dppipe.sampling import Poisson, WithoutReplacement

PLUGINS = Path(dppipe.__file__).parents[1] / "plugins"
Ended = dict[str, str]
Run = Callable[[Data, str], Ended]
"""Trains on data under a relation, in the working directory, and says how that ended."""
POISSON = Poisson(sample_rate=0.6, expected_batch_size=10, physical_batch_size=8)
SAMPLERS = {
    "zero_out": POISSON,
    "add_remove": POISSON,
    "replace_one": WithoutReplacement(expected_batch_size=14, physical_batch_size=8),
}
SAMPLER_TEXTS = {
    "zero_out": "{kind: poisson, sample_rate: 0.6, physical_batch_size: 8}",
    "add_remove": "{kind: poisson, sample_rate: 0.6, expected_batch_size: 10, physical_batch_size: 8}",
    "replace_one": "{kind: without_replacement, expected_batch_size: 14, physical_batch_size: 8}",
}
"""What is drawn from where a case doesn't say: under replace_one batches have one size."""


@dataclass(frozen=True)
class Fit:
    """A fit in a user's own Trainer, with dppipe's callback."""

    module: Callable[[], pl.LightningModule]
    private: Mapping[str, Any] = field(default_factory=dict)
    """Options of the callback beside, or instead of, the usual ones."""
    trainer: Mapping[str, Any] = field(default_factory=dict)
    callbacks: Callable[[], list[pl.Callback]] = list
    collate: Callable[[list[Any]], Any] | None = None
    synthetic: Callable[[int], Any] | None = None
    epsilon: float = 50.0

    def __call__(self, data: Data, relation: str) -> Ended:
        pl.seed_everything(1, verbose=False)
        given: dict[str, Any] = {
            "sampler": SAMPLERS[relation],
            "clipping": Flat(max_grad_norm=1.0),
            "noise": Constant(noise_multiplier=4.0),
            "accountant": Rdp(),
            "budget": dppipe.Budget(epsilon=self.epsilon, delta=1e-5, relation=relation),
            "run_dir": "run",
            "holdout": "public",
        }
        callback = dppipe.DPCallback(**given | self.private)
        options = {
            "max_steps": 5,
            "accelerator": "cpu",
            "enable_progress_bar": False,
            "enable_model_summary": False,
        }
        options |= {
            "enable_checkpointing": False,
            "logger": pl.loggers.CSVLogger(".", name="log", version=0),
        }
        options |= {
            "val_check_interval": 1,
            "check_val_every_n_epoch": None,
            "num_sanity_val_steps": 0,
            "log_every_n_steps": 1,
        }
        trainer = pl.Trainer(callbacks=[callback, *self.callbacks()], **options | self.trainer)
        scored = None if data.val is None else DataLoader(data.val, batch_size=4)
        trainer.fit(
            self.module(),
            callback.loader(data.train, collate=self.collate, synthetic=self.synthetic),
            scored,
        )
        return {"status": callback.outcome.status if callback.outcome else "none"}


@dataclass(frozen=True)
class Command:
    """A spec through `dppipe run`; `changes` are given by --set."""

    changes: tuple[str, ...] = ()
    file: str | None = None
    """The name of a file of records, .csv or .npz, where the data is read from one."""

    def __call__(self, data: Data, relation: str) -> Ended:
        staging.STAGE[:] = [data]
        if self.file is not None:
            staging.write_records(data, Path(self.file))
        Path("spec.yaml").write_text(SPEC)
        changes = (
            f"budget.relation={relation}",
            f"sampler={SAMPLER_TEXTS[relation]}",
            *self.changes,
        )
        words = [word for change in changes for word in ("--set", change)]
        done = CliRunner().invoke(
            app, ["run", "spec.yaml", "--run-dir", "run", "--plugins", str(PLUGINS), *words]
        )
        print(done.output)
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return {"exit code": str(done.exit_code)}


SPEC = """
version: 1
name: redteam
seed: 7
data:      {class_path: redteam.staging.Staged, holdout: public}
model:     {kind: mlp, hidden: [6]}
optimizer: {kind: sgd, lr: 0.5, momentum: 0.9}
sampler:   {kind: poisson, sample_rate: 0.6, physical_batch_size: 8}
clipping:  {kind: flat, max_grad_norm: 1.0}
noise:     {kind: constant, noise_multiplier: 4.0}
accountant: {kind: rdp}
budget:    {epsilon: 50.0, delta: 1.0e-5}
train:     {steps: 5, validate_every: 1}
"""


ENDED = ({"status": "completed"}, {"status": "budget_exhausted"}, {"exit code": "0"})


def slow_but(
    *fast: str, among: Iterable[str] = ("zero_out", "add_remove", "replace_one")
) -> list[Any]:
    """Return parameters of a test of which only a few run by default."""
    return [each if each in fast else pytest.param(each, marks=pytest.mark.slow) for each in among]


@dataclass(frozen=True)
class Case:
    """A way of training and a pair of neighbouring data sets."""

    run: Run
    pair: Callable[[], Pair]
    completes: bool = True
    """Whether both runs must come to their end; else they may be refused, both alike."""


def distinguish(case: Case, folder: Path) -> Verdict:
    """Run a case on both of its data sets, the second run with the first one's releases, and compare all that can be seen."""
    pair = case.pair()
    first = observe(case.run, pair.first, folder, relation=pair.relation)
    second = observe(
        case.run,
        pair.second,
        folder,
        relation=pair.relation,
        replay=first.trace,
        empty_row=pair.empty_row,
    )
    return compare(first, second, relation=pair.relation, in_holdout=pair.in_holdout)


def assert_indistinguishable(case: Case, folder: Path) -> None:
    """Fail with what differs first, where anything does."""
    verdict = distinguish(case, folder)
    if verdict.differences:
        pytest.fail(verdict.report(), pytrace=False)
    if case.completes:
        pair = case.pair()
        assert verdict.ended in ENDED, (
            f"both runs ended alike, but not well: {verdict.ended} {verdict.console}"
        )
        assert pair.in_holdout or not pair.contributes or max(verdict.distances.values()) > 0, (
            "the record was never drawn"
        )


def observe(
    run: Run,
    data: Data,
    folder: Path,
    *,
    relation: str,
    replay: Trace | None = None,
    **coupling: Any,
) -> Observed:
    """Run once in a directory of its own, coupled to an earlier run where there is one, and return all that was seen."""
    place = folder / "now"
    place.mkdir()
    with _inside(place):
        observed = watched(run, data, relation=relation, replay=replay, **coupling)
    observed.files = files_of(place)
    place.rename(folder / ("first" if replay is None else "second"))
    return observed


def watched(
    run: Run, data: Data, *, relation: str, replay: Trace | None = None, **coupling: Any
) -> Observed:
    """Run once in the working directory and return what was seen of it but its files."""
    trace = Trace()
    coupling |= {"replay": replay, "by_identity": relation == "add_remove"}
    with _own_store(), listening() as heard, coupled(trace, **coupling):
        try:
            ended = run(data, relation)
        except Exception as error:
            ended = {"exception": f"{type(error).__name__}: {plain_text(str(error))}"}
    return Observed(
        trace, ended, text_facts(heard.console.getvalue()), text_facts("\n".join(heard.messages))
    )


@contextmanager
def _own_store() -> Iterator[None]:
    """Keep what runs leave for later ones among the files that are compared."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DPPIPE_STORE", str(Path.cwd() / "store" / "budgets.db"))
        yield


@contextmanager
def _inside(folder: Path) -> Iterator[None]:
    before, threads = Path.cwd(), torch.get_num_threads()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
        torch.set_num_threads(threads)
