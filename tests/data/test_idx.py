"""IDX files: what the headers say, what is read, and how a damaged file is named."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy
import pytest
import torch

from dppipe.data import Idx
from dppipe.errors import SpecError, UsageError


def write(
    folder: Path, part: str, what: str, array: numpy.ndarray, *, zipped: bool = False, cut: int = 0
) -> Path:
    content = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes()
    content = content[: len(content) - cut]
    path = folder / f"{part}-{what}-idx{array.ndim}-ubyte{'.gz' if zipped else ''}"
    path.write_bytes(gzip.compress(content) if zipped else content)
    return path


def write_all(folder: Path, *, zipped: bool = False) -> tuple[numpy.ndarray, numpy.ndarray]:
    images = numpy.random.default_rng(0).integers(0, 256, (20, 4, 3), dtype=numpy.uint8)
    labels = (numpy.arange(20) % 10).astype(numpy.uint8)
    for part, size in (("train", 20), ("t10k", 5)):
        write(folder, part, "images", images[:size], zipped=zipped)
        write(folder, part, "labels", labels[:size], zipped=zipped)
    return images, labels


@pytest.mark.parametrize("zipped", [False, True])
def test_pixels_and_labels_are_read_exactly(tmp_path: Path, zipped: bool) -> None:
    images, labels = write_all(tmp_path, zipped=zipped)
    splits = Idx.from_data({"root": str(tmp_path)}).load()
    inputs, targets = splits.train.tensors  # type: ignore[attr-defined]
    assert torch.equal((inputs * 255).round().to(torch.uint8)[:, 0], torch.from_numpy(images))
    assert targets.tolist() == labels.tolist()
    assert len(splits.test) == 5  # type: ignore[arg-type]


def test_the_headers_alone_give_the_public_facts(tmp_path: Path) -> None:
    write_all(tmp_path)
    for path in tmp_path.iterdir():  # records cut away: nobody may read them
        path.write_bytes(path.read_bytes()[: 16 if "images" in path.name else 8])
    data = Idx.from_data({"root": str(tmp_path)})
    assert (data.count(), data.train_count(), data.input_shape, data.outputs) == (
        20,
        18,
        (1, 4, 3),
        10,
    )


def test_two_classes_make_a_binary_task(tmp_path: Path) -> None:
    write_all(tmp_path)
    for part, size in (("train", 20), ("t10k", 5)):
        write(tmp_path, part, "labels", (numpy.arange(size) % 2).astype(numpy.uint8))
    data = Idx.from_data({"root": str(tmp_path), "classes": 2})
    assert (data.task, data.outputs) == ("binary", 1)
    assert data.splits(seed=0).train.tensors[1].dtype == torch.float32  # type: ignore[attr-defined]


def test_a_missing_file_is_named_with_its_key(tmp_path: Path) -> None:
    write_all(tmp_path)
    (tmp_path / "t10k-labels-idx1-ubyte").unlink()
    with pytest.raises(
        SpecError,
        match=r"data\.root: expected a file, got .*t10k-labels-idx1-ubyte, which doesn't exist",
    ):
        Idx.from_data({"root": str(tmp_path)}).count()


@pytest.mark.parametrize("zipped", [False, True])
def test_a_file_that_is_cut_off_is_refused(tmp_path: Path, zipped: bool) -> None:
    images, _ = write_all(tmp_path)
    path = write(tmp_path, "train", "images", images, zipped=zipped, cut=7)
    if zipped:
        (tmp_path / "train-images-idx3-ubyte").unlink()
    with pytest.raises(
        UsageError, match=r"train-images-idx3-ubyte.*: expected 240 bytes after the header, got 233"
    ):
        Idx.from_data({"root": str(tmp_path)}).load()
    path.write_bytes(path.read_bytes()[:-9] if zipped else path.read_bytes()[:10])
    with pytest.raises(UsageError, match=r"cut off or damaged|expected the header"):
        Idx.from_data({"root": str(tmp_path)}).load()


def test_other_files_are_refused_by_their_header(tmp_path: Path) -> None:
    write_all(tmp_path)
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(b"\x00\x00\x0d\x01" + bytes(40))
    with pytest.raises(
        UsageError,
        match=r"train-labels-idx1-ubyte: expected the header of an IDX file of bytes with 1 dim",
    ):
        Idx.from_data({"root": str(tmp_path)}).count()


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    images, labels = write_all(tmp_path)
    write(tmp_path, "train", "images", images[:0])
    write(tmp_path, "train", "labels", labels[:0])
    with pytest.raises(UsageError, match=r"expected at least one record"):
        Idx.from_data({"root": str(tmp_path)}).count()


def test_images_and_labels_must_be_as_many(tmp_path: Path) -> None:
    _, labels = write_all(tmp_path)
    write(tmp_path, "train", "labels", labels[:19])
    with pytest.raises(UsageError, match=r"expected a label for each image, 20, got 19 labels"):
        Idx.from_data({"root": str(tmp_path)}).count()


def test_a_label_out_of_range_is_named_by_its_record(tmp_path: Path) -> None:
    _, labels = write_all(tmp_path)
    labels[6] = 77
    write(tmp_path, "train", "labels", labels)
    with pytest.raises(
        UsageError, match=r"record 7: expected a label from 0 to 9, got another"
    ) as caught:
        Idx.from_data({"root": str(tmp_path)}).load()
    assert "77" not in str(caught.value).replace(str(tmp_path), "")
