"""The comparison can fail: a leak that is planted in one channel is found in that channel."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from pathlib import Path

import pytest
import pytorch_lightning as pl
import torch
from redteam import modules
from redteam.neighbours import pair
from redteam.running import Case, Command, Fit, distinguish
from redteam.watching import Watch

from dppipe.learners.gate import Gate
from dppipe.learners.gating.upcoming import UpcomingSteps
from dppipe.learners.ranks import Ranks
from dppipe.learners.sgd.step import PrivateStep
from dppipe.lightning.callback import DPCallback
from dppipe.lightning.private_training import PrivateTraining
from dppipe.randomness.gaussian import GaussianStream
from dppipe.runs.curves import Curves
from dppipe.runs.outcome import Outcome
from dppipe.runs.record import RunRecord

pytestmark = pytest.mark.sampled(2)

SEEN: list[float] = []
"""What a planted bug can see of the records of its run: the size of each un-noised sum."""
FIRST: list[float] = []
"""The first of them in each run so far."""


@pytest.fixture
def plant(monkeypatch, tmp_path):
    """Let sums be seen, plant one bug, and return what the comparison finds."""
    FIRST.clear()
    add = GaussianStream.add_

    def spying(self, flat, std, **options):
        SEEN.append(round(float(flat.abs().sum()), 3))
        FIRST[RUN[0] :] = SEEN[:1]
        return add(self, flat, std, **options)

    def planted(owner, name, bug, *, run=None):
        run = run or Fit(modules.Offering)

        def cleared(data, relation):
            SEEN.clear()
            RUN[0] = len(FIRST)
            return run(data, relation)

        monkeypatch.setattr(GaussianStream, "add_", spying)
        original = getattr(owner, name)
        monkeypatch.setattr(
            owner, name, lambda self, *args, **kwargs: bug(original, self, *args, **kwargs)
        )
        return distinguish(Case(cleared, lambda: pair("large")), tmp_path)

    return planted


RUN = [0]


def differs():
    """Whether this run's records are others than the first run's: what a leak would follow."""
    return FIRST[0] != SEEN[0]


def places(verdict):
    return {difference.place for difference in verdict.differences}


def whats(verdict):
    return {difference.what for difference in verdict.differences}


def test_nothing_is_found_where_nothing_is_planted(plant):
    verdict = plant(DPCallback, "on_train_batch_end", lambda original, *args: original(*args))
    assert verdict.differences == [], verdict.report()


def test_a_printed_number_is_found_on_the_console(plant):
    def bug(original, *args):
        print("sum", SEEN[-1])
        return original(*args)

    verdict = plant(DPCallback, "on_train_batch_end", bug)
    assert places(verdict) == {"console"}
    assert "sum" in verdict.report()


def test_a_warning_is_found_among_the_messages(plant):
    def bug(original, *args):
        warnings.warn(f"large batch: {SEEN[-1]}", stacklevel=2)
        return original(*args)

    assert places(plant(DPCallback, "on_train_batch_end", bug)) == {"messages"}


@pytest.mark.parametrize("name", ["extra.json", "extra.txt", "extra.bin", "checkpoints/extra.ckpt"])
def test_a_number_in_a_file_is_found(plant, name):
    def bug(original, record, *args, **kwargs):
        path = record.run.path / name
        content = {"sums": SEEN}
        if path.suffix == ".ckpt":
            torch.save(content, path)
        else:
            path.write_bytes(
                json.dumps(content).encode() + (b"\xff" if path.suffix == ".bin" else b"")
            )
        return original(record, *args, **kwargs)

    assert places(plant(RunRecord, "finish", bug)) == {f"file run/{name}"}


def test_a_file_whose_name_hangs_on_a_record_is_found(plant):
    def bug(original, record, *args, **kwargs):
        Path(record.run.path / f"extra-{len(SEEN)}-{SEEN[0]}.txt").write_text("")
        return original(record, *args, **kwargs)

    assert len(plant(RunRecord, "finish", bug).differences) == 2


def test_a_status_is_found(plant):
    def bug(original, self):
        return original(self) | {"status": "failed" if differs() else "completed"}

    verdict = plant(Outcome, "to_data", bug)
    assert {"file run/summary.json", "status"} <= places(verdict) | whats(verdict)


def test_an_exit_code_and_an_exception_are_found(plant):
    def bug(original, *args):
        if differs():
            raise RuntimeError("diverged")
        return original(*args)

    verdict = plant(DPCallback, "on_train_batch_end", bug, run=Command())
    assert {"hooks", "ended"} <= places(verdict)
    assert verdict.differences[0].step == 1


def test_another_number_of_steps_is_found(plant):
    def bug(original, step):
        return original(step) and not (SEEN and differs() and step.taken == 3)

    verdict = plant(PrivateStep, "goes_on", bug)
    assert {"hooks", "noise", "file run/ledger.jsonl", "file run/summary.json"} <= places(verdict)
    assert verdict.differences[0].step in (3, 4)


def test_a_learning_rate_is_found_at_its_step(plant):
    def bug(original, self, trainer, *args):
        trainer.optimizers[0].param_groups[0]["lr"] *= 1 + SEEN[-1] / 1e6
        return original(self, trainer, *args)

    verdict = plant(DPCallback, "on_train_batch_end", bug)
    assert "learning rate.0.0" in whats(verdict)
    assert verdict.differences[0].step == 1


def test_a_buffer_and_an_attribute_are_found_at_their_step(plant):
    def bug(original, self, trainer, module, *args):
        if not hasattr(module, "extra"):
            module.register_buffer("extra", torch.zeros(()))
        module.extra.fill_(sum(SEEN))
        module.note = [{"deep": SEEN[-1]}]
        return original(self, trainer, module, *args)

    verdict = plant(DPCallback, "on_train_batch_end", bug)
    assert {"module.extra", "module.note.0.deep", "state_dict.extra"} <= whats(verdict)
    assert "file run/checkpoints/final.ckpt" in places(verdict)
    assert verdict.differences[0].step == 1


def test_a_metric_is_found_in_the_curves(plant):
    def bug(original, curves, values, **options):
        return original(curves, dict(values) | {"val/extra": sum(SEEN)}, **options)

    assert places(plant(Curves, "metrics", bug)) == {"file run/events.out.tfevents.*"}


def test_a_metric_is_found_in_a_users_own_logger(plant):
    def bug(original, logger, metrics, *args, **options):
        return original(logger, dict(metrics) | {"val/extra": sum(SEEN)}, *args, **options)

    assert "file log/version_0/metrics.csv" in places(
        plant(pl.loggers.CSVLogger, "log_metrics", bug)
    )


def test_a_value_that_says_it_is_not_private_is_let_through_but_not_its_name(plant):
    def bug(original, curves, values, **options):
        named = f"nonprivate/{sum(SEEN)}" if sum(SEEN) > 0 else "nonprivate/none"
        return original(
            curves, dict(values) | {"nonprivate/extra": sum(SEEN), named: 1.0}, **options
        )

    verdict = plant(Curves, "metrics", bug)
    assert "nonprivate/extra" not in whats(verdict)
    assert places(verdict) == {"file run/events.out.tfevents.*"}


def test_a_number_in_the_ledger_or_the_noise_is_found(plant):
    def bug(original, gate, release):
        told = float(release.facts["noise_multiplier"]) * (1 + SEEN[-1] / 1e6 if SEEN else 1)
        return original(gate, replace(release, facts={**release.facts, "noise_multiplier": told}))

    assert "file run/ledger.jsonl" in places(plant(Gate, "charge_of", bug))


def test_a_row_that_follows_a_record_by_its_event_is_found(plant):
    def bug(original, upcoming, step, noise_multiplier):
        return original(upcoming, step, noise_multiplier * (1 + SEEN[-1] / 1e6 if SEEN else 1))

    found = places(plant(UpcomingSteps, "step", bug))
    assert {"file run/ledger.jsonl", "noise"} <= found


def test_noise_that_follows_a_record_is_found(plant):
    def bug(original, self, flat, std, *, over=1.0):
        return original(self, flat, std * (1 + float(flat.abs().sum()) / 1e6), over=over)

    # The seam is patched again inside, so that the planted bug stands where dppipe calls it.
    verdict = plant(
        PrivateStep,
        "__call__",
        lambda original, step, *a, **k: _with_noise(original, bug, step, *a, **k),
    )
    assert "noise" in places(verdict)


def _with_noise(original, bug, step, *args, **kwargs):
    add = GaussianStream.add_
    GaussianStream.add_ = lambda self, flat, std, **options: bug(add, self, flat, std, **options)
    try:
        return original(step, *args, **kwargs)
    finally:
        GaussianStream.add_ = add


@pytest.mark.parametrize("share", [1.001, 3.0])
def test_a_sum_that_is_clipped_too_little_is_found(plant, share):
    def bug(original, ranks, flat):
        flat.mul_(share)
        return original(ranks, flat)

    verdict = plant(Ranks, "sum_", bug)
    assert places(verdict) == {"un-noised sum"}
    assert verdict.differences[0].step == 1


def test_randomness_from_a_public_generator_is_found(plant):
    drawn = []

    def draw(original, *args):
        original(*args)
        drawn.append(float(torch.rand(())))

    def bug(original, ranks, flat):
        flat.mul_(drawn[-1])
        return original(ranks, flat)

    plain = Watch.on_train_batch_start
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Watch, "on_train_batch_start", lambda *args: draw(plain, *args))
        verdict = plant(Ranks, "sum_", bug)
    assert places(verdict) == {"un-noised sum"}


def test_draws_from_a_public_generator_by_the_number_of_records_are_found(plant):
    def bug(original, *args):
        loss = original(*args)
        torch.rand(7 if differs() else 3)
        return loss

    verdict = plant(PrivateTraining, "training_step", bug)
    assert places(verdict) == {"public generators"}
