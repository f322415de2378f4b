"""Each fix, taken out by itself, is found by the comparison: none of them is idle, and none hides another.

A fix that moves is followed here; a case that finds nothing any more says that the fix isn't what closes the path.
"""

from __future__ import annotations

from contextlib import nullcontext

import numpy
import pytest
from redteam import mistakes, modules, texts
from redteam.neighbours import holdout_pair, pair
from redteam.running import Case, Command, Fit, distinguish

import dppipe.lightning.callback as callback
import dppipe.lightning.isolation.private_model as private_model
import dppipe.lightning.isolation.replica as replica
from dppipe.data.splitting import dividing
from dppipe.engine.checks import check
from dppipe.learners.records.reading import RecordReader
from dppipe.learners.sgd.contributions import Contributed, Contributions
from dppipe.lightning.isolation.replica import Replica
from dppipe.lightning.metrics.provenance import Provenance
from dppipe.randomness.model_randomness import ModelRandomness

pytestmark = pytest.mark.sampled(3)


def nothing(*args, **kwargs):
    return None


def add_at_once(self, batch):
    return Contributed(self._accumulate(batch.parts, batch.units), batch.units, batch.broken)


def read_at_once(self, indices):
    return [(place, self._row(index)) for place, index in enumerate(indices.tolist())]


def collate_at_once(self, rows):
    return [self.collate([row for _, row in rows])], numpy.array([place for place, _ in rows])


UNMUTED = [(Provenance, "begin", nothing), (Provenance, "refuse_unlogged", nothing)]
UNCHECKED = [(callback, "refuse_unsafe_trainer", nothing)]
MIXING = [(check, name, nothing) for name in ("refuse_mixing", "_compare_norms", "_compare_sums")]
COLLATED = [
    (RecordReader, "_row", lambda self, index: self.dataset[index]),
    (RecordReader, "_stack", lambda self, rows: self.collate(list(rows))),
    (RecordReader, "_stacked", collate_at_once),
]
ONE_COPY = [
    (replica, "_copy", lambda original, memo: original),
    (Replica, "restore", nothing),
    (Replica, "_mute", nothing),
]
FIXES = {
    "item1 what is logged outside validation is muted": (
        UNMUTED,
        Fit(mistakes.KeepingElsewhere),
        pair,
    ),
    "item2 schedulers follow no training metric": (UNMUTED, Fit(mistakes.FollowingTraining), pair),
    "item2 schedulers follow no private holdout": (
        UNMUTED + UNCHECKED,
        Fit(mistakes.Following, private={"holdout": "private"}),
        lambda: holdout_pair("large"),
    ),
    "item3 a record that can't be read is left out": (
        [(RecordReader, "_rows", read_at_once)],
        Command(),
        lambda: pair("cannot_be_read"),
    ),
    "item3 a record that can't be evaluated is left out": (
        [(Contributions, "_add_whole", add_at_once)],
        Fit(modules.Offering),
        lambda: pair("label_out_of_range"),
    ),
    "item4 rows that see each other are refused": (
        MIXING,
        Fit(texts.SeeingPadding),
        lambda: pair("longest", sentences=True),
    ),
    "item4 examples are collated one at a time": (
        COLLATED,
        Fit(texts.Reading, collate=texts.mix_rows),
        lambda: pair("large", sentences=True),
    ),
    "item5 model randomness is secret": (
        [(ModelRandomness, "secret", lambda self: nullcontext())],
        Fit(modules.Dropping),
        lambda: pair("large", "add_remove", keeps_row=True),
    ),
    "item5 records are split by their hash": (
        [(dividing, "divide_by_hash", dividing.divide_by_position)],
        Command(),
        lambda: pair("large", "add_remove", with_val=False, at=1),
    ),
    "item6 records write into a copy": (ONE_COPY, Fit(mistakes.Averaging), pair),
    "item6 batch norm updates a copy": (
        ONE_COPY,
        Fit(mistakes.Normalising, private={"sampler": modules.in_one_piece()}),
        pair,
    ),
    "item10 what user code prints is dropped": (
        [(private_model, "silenced", nullcontext)],
        Fit(mistakes.Printing),
        pair,
    ),
}


@pytest.mark.parametrize("name", FIXES)
def test_a_fix_that_is_taken_out_is_missed(name, tmp_path, monkeypatch):
    patches, run, neighbours = FIXES[name]
    for owner, attribute, instead in patches:
        monkeypatch.setattr(owner, attribute, instead)
    verdict = distinguish(Case(run, neighbours), tmp_path)
    assert verdict.differences, f"nothing is found without it; the runs ended by {verdict.ended}"
