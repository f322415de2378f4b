"""`load_model` takes inputs as the data's file holds them.

What it returns is the user's own network all the same.
"""

from __future__ import annotations

import copy
import io
import json
import pickle
import struct

import numpy
import pytest
import torch
from sklearn.datasets import load_breast_cancer, load_digits
from torch import nn
from typer.testing import CliRunner

import dppipe
from dppipe.cli.app import app
from dppipe.data import BreastCancer, Csv, Digits, Idx, Npz
from dppipe.errors import UsageError
from dppipe.models.mlp import Mlp
from dppipe.pipeline.prediction.raw_inputs import TransformsInputs, take_raw_inputs

DIGITS = [
    "model={kind: mlp, hidden: [32]}",
    "optimizer.lr=1",
    "train.steps=40",
    "budget.epsilon=1000",
]
CONSTANTS = "data={kind: digits, holdout: public, normalize: {mean: 0.3, std: 0.05}}"
STATISTICS = "data={kind: digits, holdout: public, normalize: {kind: private, noise_multiplier: 5}}"


@pytest.mark.parametrize("data", [CONSTANTS, STATISTICS], ids=["constants", "private statistics"])
def test_a_loaded_model_scores_raw_images_exactly_as_evaluate_scores_the_test_split(run, data):
    done = run(data, *DIGITS)
    assert done.exit_code == 0, done.output
    evaluated = json.loads(CliRunner().invoke(app, ["evaluate", str(done.path), "--json"]).output)
    test = Digits().splits(seed=7).test
    raw = test.tensors[0] * 16  # as scikit-learn has them
    assert {tuple(image) for image in raw.flatten(1).tolist()} <= set(
        map(tuple, load_digits().data.tolist())
    )
    with torch.inference_mode():
        found = dppipe.load_model(done.path)(raw).argmax(1)
    accuracy = (found == test.tensors[1]).float().mean().item()
    assert accuracy == pytest.approx(evaluated["test/accuracy"], abs=1e-7)
    assert accuracy > 0.4  # ten classes: the comparison isn't one of guesses


def test_a_loaded_model_keeps_the_networks_class_and_names_and_its_scaling_survives_copies(run):
    done = run(CONSTANTS, *DIGITS, "train.steps=2")
    model = dppipe.load_model(done.path)
    raw = torch.randint(17, (5, 1, 8, 8))
    plain = Mlp(hidden=(32,)).build((1, 8, 8), 10)
    assert type(model) is type(plain)
    assert list(model.state_dict()) == list(plain.state_dict())
    for each in (plain, model):
        each.load_state_dict(done.weights())
    expected = plain.eval()((raw.float() / 16 - 0.3) / 0.05)
    written = io.BytesIO()
    torch.save(model, written)
    written.seek(0)
    copies = [
        model,
        copy.deepcopy(model),
        pickle.loads(pickle.dumps(model)),
        torch.load(written, weights_only=False),
    ]
    for each in copies:
        torch.testing.assert_close(each(raw), expected)
    torch.testing.assert_close(model(input=raw), expected)
    torch.testing.assert_close(model.double()(raw), expected.double(), rtol=1e-4, atol=1e-4)


def test_a_model_of_raw_inputs_names_the_shape_it_expects():
    network = nn.Flatten()
    take_raw_inputs(
        network, Npz.from_data({"path": "x.npz", "normalize": {"mean": [1, 2, 3]}}).public_scaling
    )
    with pytest.raises(UsageError, match=r"expected inputs \[n, 3, ...\], got \[2, 5\]"):
        network(torch.zeros(2, 5))
    with pytest.raises(UsageError, match="expected a batch of inputs"):
        network(torch.zeros(3))


def idx(folder):
    images = numpy.random.default_rng(0).integers(0, 256, (20, 4, 3), dtype=numpy.uint8)
    labels = (numpy.arange(20) % 10).astype(numpy.uint8)
    for part in ("train", "t10k"):
        for name, array in (
            (f"{part}-images-idx3-ubyte", images),
            (f"{part}-labels-idx1-ubyte", labels),
        ):
            header = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape)
            (folder / name).write_bytes(header + array.tobytes())
    return Idx.from_data({"root": str(folder), "normalize": {"mean": 0.2, "std": 0.7}}), images[
        :, None
    ]


def digits(folder):
    return Digits.from_data({"normalize": {"mean": 0.5, "std": 0.1}}), load_digits().images[:, None]


def breast_cancer(folder):
    return BreastCancer(), load_breast_cancer().data


def npz(folder):
    x = numpy.random.default_rng(0).integers(0, 99, (6, 3, 2))
    numpy.savez(folder / "x.npz", x=x, y=numpy.zeros(6))
    return Npz.from_data(
        {"path": str(folder / "x.npz"), "normalize": {"mean": [1, 2, 3], "std": 4}}
    ), x


def csv(folder):
    (folder / "t.csv").write_text("age,ward,days\n70,A,1\n30,B,2\n?,C,3\n")
    options = {
        "path": str(folder / "t.csv"),
        "numeric": [{"column": "age", "mean": 45, "std": 20, "fill": 50}],
        "categorical": [{"column": "ward", "values": ["A", "B"]}],
        "target": {"column": "days"},
    }
    return Csv.from_data(options), numpy.array([[70.0, 1, 0], [30, 0, 1], [50, 0, 0]])


@pytest.mark.parametrize(
    "kind", [idx, digits, breast_cancer, npz, csv], ids=lambda kind: kind.__name__
)
def test_raw_inputs_are_scaled_as_every_kind_of_data_scales_them(kind, tmp_path):
    data, raw = kind(tmp_path)
    loaded = data.load()
    inputs = getattr(loaded, "train", loaded).tensors[0]
    hook = TransformsInputs(data.public_scaling)
    scaled = hook.transform(torch.from_numpy(raw), network=nn.Flatten())
    torch.testing.assert_close(scaled, inputs, rtol=1e-6, atol=1e-6)


def test_data_of_ones_own_class_passes_its_constants_on(tmp_path, monkeypatch):
    from dppipe.data.class_path import ClassPathData

    data = ClassPathData.from_data(
        {"class_path": "dppipe.data.Digits", "init_args": {"normalize": {"mean": 0.5}}}
    )
    assert data.public_scaling == Digits.from_data({"normalize": {"mean": 0.5}}).public_scaling
