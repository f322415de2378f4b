"""A user's own data, by import path: what is stated, what the class knows, and how its faults are named."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from torch.utils.data import Subset

from dppipe.component import Component
from dppipe.data import ClassPathData, Data, Digits
from dppipe.errors import SpecError, UsageError

MODULE = """
import torch
from dppipe import Data, Field
from torch.utils.data import IterableDataset, TensorDataset

class Pairs:
    def __init__(self, size, item=None, fail=False):
        if fail:
            raise ValueError("4711-secret")
        self.size, self.item = size, item
    def __len__(self):
        return self.size
    def __getitem__(self, i):
        return self.item or (torch.full((3,), float(i)), i % 2)

class NoLength:
    pass

class Stream(IterableDataset):
    def __len__(self):
        return 10
    def __iter__(self):
        return iter(Pairs(10))

class Own(Data):
    size: int = Field(20, gt=0)

    @property
    def task(self): return "multiclass"
    @property
    def input_shape(self): return (2,)
    @property
    def outputs(self): return 4
    def count(self): return self.known_count(self.size)
    def load(self): return TensorDataset(torch.zeros(self.size, 2), torch.arange(self.size) % 4)

from dppipe.data.reading.normalize import Normalize

class Scaled(Own):
    normalize: Normalize = None
    @property
    def scaled_features(self): return 1

class Streaming(Own):
    def load(self): return Stream()

function = len
"""

STATED = {"input_shape": [3], "outputs": 1, "task": "binary", "records": 10}


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "own_records.py").write_text(MODULE)
    (tmp_path / "broken_records.py").write_text("import no_such_library\n")
    yield
    for name in ("own_records", "broken_records"):
        sys.modules.pop(name, None)


def make(name: str, *, stated: dict[str, Any] = STATED, **init_args: Any) -> ClassPathData:
    return ClassPathData.from_data({"class_path": name, "init_args": init_args, **stated})


def test_private_statistics_that_a_data_class_asks_for_are_planned_and_scale_its_features() -> None:
    private = {"kind": "private", "noise_multiplier": 10, "lower": 0, "upper": 1}
    data = make("own_records.Scaled", stated={}, normalize=private)
    assert data.private_scaling is not None
    assert data.private_scaling.noise_multiplier == 10
    assert data.preludes == (data.private_scaling,)
    assert data.scaled_features == 1


def test_whatever_a_data_class_may_override_is_asked_of_it() -> None:
    decided_by_the_block = {
        "known_count",  # for the class itself to call
        "model_input_shape",  # from `input_shape` and `feature_map`, which are asked of the class
        "preludes",  # from `private_scaling`, which is asked of the class
        "train_users",  # from `users` and `split`, which the class gets from the block
        "checks_records",
    }
    own = {
        name for name in vars(Data) if not name.startswith("_") and name not in Data.model_fields
    }
    forwarded = set(vars(ClassPathData))
    assert own - forwarded - decided_by_the_block - set(vars(Component)) - {"model_config"} == set()


@pytest.mark.parametrize("stated", [None, "refuse", "drop"])
def test_a_data_class_that_is_named_treats_bad_records_as_it_does_by_its_kind(stated) -> None:
    given = {} if stated is None else {"on_bad_record": stated}
    named = make("dppipe.data.digits.Digits", stated=given)
    assert named.drops_bad_records == Digits.from_data(given).drops_bad_records


def test_a_data_set_is_split_by_index_and_imported_only_when_read() -> None:
    data = make("own_records.Pairs", size=10)
    assert (data.train_count(), data.input_shape, data.outputs, data.task) == (8, (3,), 1, "binary")
    assert "own_records" not in sys.modules
    splits = data.splits(seed=0)
    assert isinstance(splits.train, Subset)
    assert sorted(item[0][0].item() for part in splits for item in part) == list(range(10))  # type: ignore[union-attr]


def test_a_data_subclass_tells_its_own_facts() -> None:
    data = make(
        "own_records.Own", stated={"split": {"train": 0.5, "val": 0.25, "test": 0.25}}, size=8
    )
    assert (data.count(), data.train_count(), data.input_shape, data.outputs, data.task) == (
        8,
        4,
        (2,),
        4,
        "multiclass",
    )
    assert [len(part) for part in data.splits(seed=0)] == [4, 2, 2]  # type: ignore[arg-type]
    assert data.synthetic(3)[1].shape == (3,)


@pytest.mark.parametrize(
    ("name", "init_args", "message"),
    [
        ("Pairs", {}, r"data\.class_path: expected package\.module\.Class, got 'Pairs'"),
        (
            "no_such_module.Pairs",
            {},
            r"got 'no_such_module\.Pairs': ModuleNotFoundError.* The working directory",
        ),
        (
            "broken_records.Pairs",
            {},
            r"got 'broken_records\.Pairs': ModuleNotFoundError: .*no_such_library.* Fix that module",
        ),
        (
            "own_records.Nothing",
            {},
            r"got 'own_records\.Nothing': .*own_records\.py has no such name",
        ),
        ("own_records.function", {}, r"expected a class, got 'own_records\.function'"),
        (
            "own_records.NoLength",
            {},
            r"expected a class with __len__ and __getitem__, got 'own_records\.NoLength'",
        ),
        (
            "own_records.Stream",
            {},
            r"data\.class_path: expected a map-style data set, .* got Stream\..* into a list",
        ),
        (
            "own_records.Pairs",
            {"length": 3},
            r"data\.init_args: expected the arguments of Pairs\(size, item=None, fail=False\)",
        ),
        ("own_records.Pairs", {"size": 0}, r"expected records, got an empty own_records\.Pairs"),
        ("own_records.Pairs", {"size": 10, "item": [1, 2, 3]}, r"expected items \(input, target\)"),
        (
            "own_records.Pairs",
            {"size": 10, "item": [1, 2]},
            r"data\.input_shape: expected \[\], .* got \[3\]",
        ),
        (
            "own_records.Pairs",
            {"size": 9},
            r"data\.records: expected the number of records in the data, 9, got 10",
        ),
    ],
)
def test_faults_are_named_with_their_keys(
    name: str, init_args: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        make(name, **init_args).splits(seed=0)


def test_what_a_class_raises_is_named_by_its_line_and_not_by_its_message() -> None:
    with pytest.raises(
        UsageError, match=r"own_records\.Pairs failed: ValueError at own_records\.py:9"
    ) as caught:
        make("own_records.Pairs", size=10, fail=True).splits(seed=0)
    assert "4711" not in "".join(traceback.format_exception(caught.value))


def test_a_class_that_is_no_data_needs_its_facts_stated() -> None:
    with pytest.raises(
        SpecError,
        match=r"expected a subclass of dppipe\.Data, got 'own_records\.Pairs'\. .* state input_shape",
    ):
        make("own_records.Pairs", stated={}, size=10).count()


def test_a_data_subclass_that_loads_a_stream_is_an_error_that_names_a_way_out() -> None:
    with pytest.raises(
        UsageError, match=r"data: expected a map-style data set, .* got Stream\..* into a list"
    ):
        make("own_records.Streaming", stated={}).splits(seed=0)


def test_options_of_a_data_subclass_are_checked() -> None:
    with pytest.raises(SpecError, match=r"data\.init_args\.size: Input should be greater than 0"):
        make("own_records.Own", stated={}, size=0).count()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"task": "binary"},
            "expected input_shape, outputs and task together, got no input_shape and no outputs",
        ),
        ({**STATED, "outputs": 2}, "expected 1 output of a binary task, got 2"),
        (
            {**STATED, "task": "multiclass"},
            "expected an output for each class of a multiclass task, got 1",
        ),
        ({"init_args": {"split": {}}}, "expected split beside class_path, got it in init_args"),
        ({**STATED, "input_shape": []}, "input_shape"),
        ({"test_args": {"size": 5}}, "expected test_args of a class that isn't a Data"),
        ({**STATED, "test_args": {"size": 5}}, "split.test to be 0 beside test_args"),
    ],
)
def test_options_that_contradict_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        ClassPathData.from_data({"class_path": "own_records.Own", **options})


def test_the_working_directory_never_hides_what_is_installed(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("JSONDecoder = 1\n")
    with pytest.raises(
        SpecError, match=r"expected a subclass of dppipe\.Data, got 'json\.JSONDecoder'"
    ):
        make("json.JSONDecoder", stated={}).count()
    assert sys.path.index(str(tmp_path)) == len(sys.path) - 1


def test_a_second_data_set_of_the_class_holds_the_test_records() -> None:
    data = ClassPathData.from_data(
        {
            "class_path": "own_records.Pairs",
            "init_args": {"size": 10},
            "test_args": {"size": 4},
            "split": {"train": 0.8, "val": 0.2, "test": 0},
            **STATED,
        }
    )
    assert [len(part) for part in data.splits(seed=0)] == [8, 2, 4]  # type: ignore[arg-type]
