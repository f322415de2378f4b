"""What every data kind keeps, over all that the registry finds: a new kind is tested by being there."""

from __future__ import annotations

import gzip
import json
import random
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from torch.utils.data import TensorDataset, default_collate

from dppipe.data.base import Data
from dppipe.errors import SpecError, UsageError
from dppipe.spec.kinds.registry import Registry

KINDS = Registry().kinds("data")


def write_idx(folder: Path) -> dict[str, Any]:
    generator = numpy.random.default_rng(0)
    for part, records in (("train", 40), ("t10k", 7)):
        images = generator.integers(0, 256, (records, 6, 5), dtype=numpy.uint8)
        labels = (numpy.arange(records) % 10).astype(numpy.uint8)
        header = struct.pack(">HBBIII", 0, 8, 3, *images.shape)
        (folder / f"{part}-images-idx3-ubyte").write_bytes(header + images.tobytes())
        zipped = gzip.compress(struct.pack(">HBBI", 0, 8, 1, records) + labels.tobytes())
        (folder / f"{part}-labels-idx1-ubyte.gz").write_bytes(zipped)
    return {"root": str(folder)}


def write_npz(folder: Path) -> dict[str, Any]:
    generator = numpy.random.default_rng(0)
    numpy.savez(
        folder / "d.npz", x=generator.normal(size=(30, 3, 4)), y=generator.integers(0, 4, 30)
    )
    return {"path": str(folder / "d.npz"), "classes": 4}


def write_csv(folder: Path) -> dict[str, Any]:
    rows = [
        "age,town,ill",
        *(f"{20 + row},{'ABC'[row % 3]},{'yes' if row % 2 else 'no'}" for row in range(30)),
    ]
    (folder / "d.csv").write_text("\n".join(rows))
    return {
        "path": str(folder / "d.csv"),
        "records": 30,
        "numeric": [{"column": "age", "mean": 40, "std": 10}],
        "categorical": [{"column": "town", "values": ["A", "B"]}],
        "target": {"column": "ill", "classes": ["no", "yes"]},
    }


def write_class(folder: Path) -> dict[str, Any]:
    (folder / "contract_records.py").write_text(
        "import torch\n"
        "class Records:\n"
        "    def __init__(self, size): self.size = size\n"
        "    def __len__(self): return self.size\n"
        "    def __getitem__(self, i): return torch.full((3,), float(i)), torch.tensor([float(i)])\n"
    )
    stated = {"records": 30, "input_shape": [3], "outputs": 1, "task": "regression"}
    return {"class_path": "contract_records.Records", "init_args": {"size": 30}, **stated}


EXAMPLES: dict[str, Callable[[Path], dict[str, Any]]] = {
    "class_path": write_class,
    "csv": write_csv,
    "idx": write_idx,
    "npz": write_npz,
}
"""Options of the kinds that can't do without any."""


@pytest.fixture(params=KINDS)
def data(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Data:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    cls = Registry().load("data", request.param)
    made = cls.from_data(EXAMPLES.get(request.param, lambda _: {})(tmp_path))
    assert isinstance(made, Data)
    return made


def test_public_facts_are_known_without_reading_a_record(
    data: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Data) -> None:
        raise AssertionError("records were read")

    monkeypatch.setattr(type(data), "load", refuse)
    assert 0 < data.train_count() <= data.count()
    assert all(size > 0 for size in data.input_shape)
    assert data.task in ("multiclass", "binary", "regression")
    assert data.outputs > 0
    assert data.outputs == 1 or data.task != "binary"
    data.synthetic(2)


def test_options_survive_being_written_and_read(data: Data) -> None:
    written = json.loads(json.dumps(data.to_data()))
    assert written.pop("kind") == data.kind
    assert type(data).from_data(written) == data


def test_every_option_says_what_it_is(data: Data) -> None:
    assert all(field.description for field in type(data).model_fields.values())


def test_the_plan_counts_the_records_that_are_trained_on(data: Data) -> None:
    splits = data.splits(seed=3)
    assert len(splits.train) == data.train_count()
    assert splits.val is not None
    assert len(splits.val) == data.split.counts(data.count())[1]
    assert splits.test is not None
    assert len(splits.test) > 0


def test_what_is_in_memory_stays_tensors(data: Data) -> None:
    splits = data.splits(seed=3)
    loaded = data.load()
    whole = loaded[0] if isinstance(loaded, tuple) else loaded
    if isinstance(whole, TensorDataset):
        assert all(isinstance(part, TensorDataset) for part in splits)


def test_batches_have_the_types_of_their_task(data: Data) -> None:
    for part in data.splits(seed=3):
        inputs, targets = default_collate([part[row] for row in range(min(len(part), 50))])
        assert inputs.shape[1:] == torch.Size(data.input_shape)
        assert inputs.dtype == torch.float32
        assert torch.isfinite(inputs).all()
        if data.task == "multiclass":
            assert targets.dtype == torch.int64
            assert ((targets >= 0) & (targets < data.outputs)).all()
        elif data.task == "binary":
            assert targets.dtype == torch.float32
            assert set(targets.tolist()) <= {0.0, 1.0}
        else:
            assert targets.dtype == torch.float32
            assert targets.shape[1:] == (data.outputs,)


def test_made_up_batches_look_like_real_ones(data: Data) -> None:
    real = default_collate([data.splits(seed=3).train[row] for row in range(5)])
    for n in (0, 1, 5):
        made_up = data.synthetic(n)
        for ours, theirs in zip(made_up, real, strict=True):
            assert len(ours) == n
            assert ours.shape[1:] == theirs.shape[1:]
            assert ours.dtype == theirs.dtype
    assert torch.equal(data.synthetic(5)[0], data.synthetic(5)[0])
    assert not torch.equal(data.synthetic(5)[0], real[0])


def test_the_split_depends_on_the_seed_alone(data: Data) -> None:
    def targets(seed: int) -> list[Any]:
        inputs = [row[0] for part in data.splits(seed=seed)[:2] for row in part]
        return [torch.stack(list(inputs)).flatten(1).sum(1).tolist()]

    first = targets(3)
    torch.manual_seed(5)
    assert targets(3) == first
    assert targets(4) != first


def test_no_global_generator_is_touched(data: Data) -> None:
    torch.manual_seed(0)
    numpy.random.seed(0)
    random.seed(0)
    before = torch.get_rng_state().tolist(), numpy.random.get_state()[1].tolist(), random.getstate()
    data.splits(seed=3)
    data.synthetic(4)
    assert (
        torch.get_rng_state().tolist(),
        numpy.random.get_state()[1].tolist(),
        random.getstate(),
    ) == before


def test_a_wrong_number_of_records_is_refused(data: Data) -> None:
    wrong = type(data).from_data(
        {
            **{key: value for key, value in data.to_data().items() if key != "kind"},
            "records": data.count() + 1,
        }
    )
    with pytest.raises((SpecError, UsageError), match="records"):
        (wrong.count(), wrong.splits(seed=0))


def test_all_records_can_be_trained_on(data: Data) -> None:
    whole = type(data).from_data(
        {
            **{key: value for key, value in data.to_data().items() if key != "kind"},
            "split": {"train": 1, "val": 0, "test": 0},
        }
    )
    splits = whole.splits(seed=0)
    assert len(splits.train) == whole.train_count() == whole.count()
    assert splits.val is None
