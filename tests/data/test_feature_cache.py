"""The cache of features: one file for the same inputs and options, which its owner alone may read."""

from __future__ import annotations

import os
from pathlib import Path

import numpy
import pytest
import torch

from dppipe.data.features import cache
from dppipe.data.features.cache import cached_features
from dppipe.data.features.orientation_histograms import OrientationHistograms
from dppipe.local_folder import local_folder

KIND = OrientationHistograms(cells=(3,))


def images(seed: int = 0) -> torch.Tensor:
    return torch.rand(6, 1, 8, 8, generator=torch.Generator().manual_seed(seed))


def files() -> list[Path]:
    return sorted((local_folder() / "cache").glob("*"))


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Note how often features are computed."""
    seen: list[int] = []
    usual = OrientationHistograms.transformed

    def noted(self: OrientationHistograms, inputs: torch.Tensor) -> torch.Tensor:
        seen.append(len(inputs))
        return usual(self, inputs)

    monkeypatch.setattr(OrientationHistograms, "transformed", noted)
    return seen


def test_features_are_computed_once_for_the_same_inputs_and_options(computed: list[int]) -> None:
    first = cached_features(KIND, images())
    again = cached_features(KIND.model_copy(), images())
    assert torch.equal(first, again)
    assert computed == [6]
    assert len(files()) == 1


def test_other_options_inputs_types_or_arithmetic_have_other_files(
    computed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = images()
    changed[5, 0, 7, 7] += 1e-6
    for kind, inputs in (
        (KIND, images()),
        (OrientationHistograms(cells=(3,), orientations=9), images()),
        (OrientationHistograms(cells=(1, 2, 2)), images()),  # as many features
        (KIND, changed),
        (KIND, images().flip(0)),
        (KIND, images().reshape(6, 1, 4, 16)),
    ):
        found = cached_features(kind, inputs)
        assert torch.equal(found, kind.transformed(inputs))
    monkeypatch.setattr(cache, "ARITHMETIC", 2)
    cached_features(KIND, images())
    assert len(files()) == 7


def test_only_its_owner_may_read_a_file_and_none_is_left_half_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = os.umask(0)
    try:
        cached_features(KIND, images())
    finally:
        os.umask(before)
    (file,) = files()
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700

    def fail(*args: object, **kwargs: object) -> None:
        raise OSError("full")

    monkeypatch.setattr(numpy, "save", fail)
    assert torch.equal(cached_features(KIND, images(1)), KIND.transformed(images(1)))
    assert files() == [file]


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY", None])
def test_a_file_that_is_damaged_or_of_another_shape_is_computed_again(
    content: bytes | None,
) -> None:
    expected = cached_features(KIND, images())
    (file,) = files()
    if content is None:
        numpy.save(file, numpy.zeros((2, 2), dtype=numpy.float32))
    else:
        file.write_bytes(content)
    assert torch.equal(cached_features(KIND, images()), expected)
    assert torch.equal(cached_features(KIND, images()), expected)


def test_the_file_that_was_not_used_longest_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    cached_features(KIND, images(0))
    (first,) = files()
    cached_features(KIND, images(1))
    (second,) = set(files()) - {first}
    for age, file in ((100, first), (200, second)):
        os.utime(file, (age, age))
    cached_features(KIND, images(0))  # used again
    monkeypatch.setattr(cache, "MOST_BYTES", 2 * first.stat().st_size)
    cached_features(KIND, images(2))
    assert first in files()
    assert second not in files()
    assert len(files()) == 2
