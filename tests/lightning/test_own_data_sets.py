"""A data set of the user's own under a network of torch's layers: unheard, and random in secret."""

from __future__ import annotations

import logging
import random
import sys
import types
import warnings
from contextlib import contextmanager

import numpy
import pytest
import torch
from torch.utils.data import Dataset

from dppipe.learners.records.reading import RecordReader
from dppipe.lightning.isolation.private_model import PrivateModel

RECORDS = 60
MODELS = [
    "{kind: logistic}",
    "{kind: mlp, hidden: [4]}",
    "{class_path: torch.nn.Linear, init_args: %s}",
]
MODELS[2] %= "{in_features: 4, out_features: 3}"
GENERATORS = ["python", "numpy", "torch", "own python", "own numpy", "own old numpy", "own torch"]
drawn: dict[str, list[float]] = {}
in_step: list[bool] = []
"""Holds one item while records of a private step are read."""


class Telling(Dataset):
    """Says on every channel which record it reads, and draws from every generator."""

    def __init__(self):
        self.python = random.Random(0)
        self.numpy = numpy.random.default_rng(0)
        self.old_numpy = numpy.random.RandomState(0)
        self.torch = torch.Generator().manual_seed(0)

    def __len__(self):
        return RECORDS

    def __getitem__(self, index):
        if in_step:
            self.tell(f"secret-{index}")
        values = [random.random(), numpy.random.random(), torch.rand(()), self.python.random()]
        values += [self.numpy.random(), self.old_numpy.random_sample()]
        values += [torch.rand((), generator=self.torch)]
        if in_step:
            for name, value in zip(GENERATORS, values, strict=True):
                drawn.setdefault(name, []).append(float(value))
        return torch.full((4,), index / RECORDS), index % 3

    def tell(self, text):
        print(text)
        print(text, file=sys.stderr)
        sys.stdout.write(text)
        sys.stdout.writelines([text])
        warnings.warn(text, stacklevel=1)
        logging.getLogger().error(text)
        logging.getLogger("own.records").critical(text)


def states():
    return random.getstate(), numpy.random.get_state()[1].tolist(), torch.get_rng_state().tolist()


@pytest.fixture
def watched(monkeypatch):
    """Mark the reading of private steps; tell whether each has moved a public generator."""
    module = types.ModuleType("telling_records")
    module.Telling = Telling
    Telling.__module__ = "telling_records"
    monkeypatch.setitem(sys.modules, "telling_records", module)
    drawn.clear()
    read, isolated = RecordReader.read, PrivateModel.isolated
    moved = []

    def noted_read(reader, *args):
        in_step.append(True)
        try:
            return read(reader, *args)
        finally:
            in_step.clear()

    @contextmanager
    def noted_sealed(model):
        before = states()
        with isolated(model):
            yield
        moved.append(before != states())

    monkeypatch.setattr(RecordReader, "read", noted_read)
    monkeypatch.setattr(PrivateModel, "isolated", noted_sealed)
    return moved


STATED = "input_shape: [4], outputs: 3, task: multiclass, records: 60, holdout: public"
DATA = f"{{class_path: telling_records.Telling, {STATED}}}"


@pytest.fixture
def go(run, watched):
    """Run the data set under a model, and return what was heard."""

    def once(model):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            done = run(
                f"data={DATA}",
                f"model={model}",
                "sampler.sample_rate=0.3",
                "train={steps: 4}",
            )
        assert done.exit_code == 0, done.output
        return done.output + " ".join(str(each.message) for each in said)

    return once


@pytest.mark.parametrize("model", MODELS)
def test_nothing_that_a_data_set_says_over_a_record_is_heard(model, go, capfd, caplog):
    heard = go(model)
    out, err = capfd.readouterr()
    assert drawn["python"], "no record was read in a step"
    for text in (heard, out, err, caplog.text):
        assert "secret-" not in text


@pytest.mark.parametrize("model", MODELS)
def test_what_a_data_set_draws_in_a_step_is_secret_and_leaves_public_generators_alone(
    model,
    go,
    watched,
):
    go(model)
    first = {name: set(values) for name, values in drawn.items()}
    drawn.clear()
    go(model)
    for name in GENERATORS:
        assert len(first[name]) > 1
        assert not first[name] & set(drawn[name]), name
    assert len(watched) == 8
    assert not any(watched)
