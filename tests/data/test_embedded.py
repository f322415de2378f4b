"""The data sets that ship with scikit-learn, and the made-up one: their published facts, and that they can be learned."""

from __future__ import annotations

from pathlib import Path

import numpy
import pytest
import torch
from pydantic import ValidationError
from sklearn.linear_model import LinearRegression, LogisticRegression

import dppipe
from dppipe.data import BreastCancer, Data, Digits, Synthetic
from dppipe.data.base import Splits


def arrays(part: object) -> tuple[numpy.ndarray, numpy.ndarray]:
    inputs, targets = part.tensors  # type: ignore[attr-defined]
    return inputs.flatten(1).numpy(), targets.squeeze(
        -1
    ).numpy() if targets.ndim > 1 else targets.numpy()


def accuracy(splits: Splits) -> float:
    return LogisticRegression(max_iter=200).fit(*arrays(splits.train)).score(*arrays(splits.test))


def test_digits_are_pixels_from_0_to_1() -> None:
    inputs, labels = Digits().load().tensors
    assert inputs.shape == (1797, 1, 8, 8)
    assert (inputs.min(), inputs.max()) == (0, 1)
    assert torch.bincount(labels).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    assert accuracy(Digits().splits(seed=0)) > 0.93


def test_digits_are_centred_by_a_constant_that_is_given() -> None:
    centred = Digits.from_data({"normalize": {"mean": 0.5, "std": 0.5}}).load().tensors[0]
    torch.testing.assert_close(centred, 2 * Digits().load().tensors[0] - 1)


def test_breast_cancer_is_scaled_by_constants_near_its_ranges() -> None:
    inputs, labels = BreastCancer().load().tensors
    assert inputs.shape == (569, 30)
    assert labels.sum() == 357
    assert (inputs.min(0).values >= -1.1).all()
    assert ((inputs.max(0).values > 2.3) & (inputs.max(0).values < 3.4)).all()
    assert accuracy(BreastCancer().splits(seed=0)) > 0.93


@pytest.mark.parametrize("options", [{}, {"classes": 5}, {"classes": 2, "task": "multiclass"}])
def test_made_up_classes_can_be_learned(options: dict[str, object]) -> None:
    splits = Synthetic.from_data({"size": 2000, "features": 8, **options}).splits(seed=0)
    assert accuracy(splits) > 0.85
    assert torch.unique(splits.train.tensors[1], return_counts=True)[1].min() > 100  # type: ignore[attr-defined]


def test_made_up_numbers_can_be_learned() -> None:
    splits = Synthetic(size=500, features=8, task="regression").splits(seed=0)
    assert LinearRegression().fit(*arrays(splits.train)).score(*arrays(splits.test)) > 0.95


def test_made_up_records_depend_on_their_own_seed_alone() -> None:
    def records(data: Data) -> torch.Tensor:
        return data.load().tensors[0]  # type: ignore[union-attr]

    assert torch.equal(records(Synthetic()), records(Synthetic()))
    assert not torch.equal(records(Synthetic()), records(Synthetic(data_seed=1)))


def test_a_binary_task_has_two_classes() -> None:
    with pytest.raises(
        ValidationError, match=r"expected 2 classes of a binary task, got 3\. Set task: multiclass"
    ):
        Synthetic.from_data({"classes": 3, "task": "binary"})


def test_the_records_that_come_along_are_those_of_scikit_learn() -> None:
    from sklearn.datasets import load_breast_cancer, load_digits

    from dppipe.data.published.arrays import published_arrays

    for name, load in (("digits", load_digits), ("breast_cancer", load_breast_cancer)):
        for ours, theirs in zip(published_arrays(name), load(return_X_y=True), strict=True):
            assert ours.dtype == theirs.dtype
            assert (ours == theirs).all()


def test_the_page_on_sources_says_what_scikit_learns_descriptions_say() -> None:
    from sklearn.datasets import load_breast_cancer, load_digits

    page = (Path(dppipe.__file__).parent / "data/published/README.md").read_text(encoding="utf-8")
    digits = load_digits().DESCR
    assert ":Number of Instances: 1797" in digits
    assert "copy of the test set of the UCI ML hand-written digits" in digits
    assert "E. Alpaydin" in digits
    assert "July; 1998" in digits
    tumours = load_breast_cancer().DESCR
    assert ":Number of Instances: 569" in tumours
    assert "copy of UCI ML Breast Cancer Wisconsin (Diagnostic)" in tumours
    for name in ("Wolberg", "Street", "Mangasarian", "November"):
        assert name in tumours
        assert name in page
    assert "CC BY 4.0" in page
