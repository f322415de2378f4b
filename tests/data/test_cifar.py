"""The binary batches of CIFAR-10 and CIFAR-100."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy
import pytest

from dppipe.data import Cifar
from dppipe.errors import DppipeError


def write(folder: Path, name: str, labels: list[list[int]]) -> numpy.ndarray:
    """Write records whose pixels tell their place, row and colour."""
    records = []
    for place, row in enumerate(labels):
        red = numpy.arange(1024) % 256
        green = numpy.full(1024, place)
        blue = numpy.repeat(numpy.arange(32), 32)
        records.append(numpy.concatenate([row, red, green, blue]))
    content = numpy.array(records, dtype=numpy.uint8)
    (folder / name).write_bytes(content.tobytes())
    return content


@pytest.fixture
def ten(tmp_path: Path) -> Path:
    for number in range(1, 6):
        write(tmp_path, f"data_batch_{number}.bin", [[number], [0], [9]])
    write(tmp_path, "test_batch.bin", [[7], [8]])
    return tmp_path


def parts(data: Cifar) -> tuple[Any, Any]:
    loaded = data.load()
    assert loaded.val is None
    train: Any = loaded.train
    test: Any = loaded.test
    return train.tensors, test.tensors


def test_cifar_10_is_read_in_the_order_of_its_batches(ten: Path) -> None:
    data = Cifar(root=ten)
    assert (data.count(), data.input_shape, data.outputs) == (15, (3, 32, 32), 10)
    (inputs, labels), (tested, test_labels) = parts(data)
    assert labels.tolist() == [1, 0, 9, 2, 0, 9, 3, 0, 9, 4, 0, 9, 5, 0, 9]
    assert test_labels.tolist() == [7, 8]
    assert tested.shape == (2, 3, 32, 32)
    # Red counts along a row first, green is the record's place, blue the row's number.
    assert (inputs[0, 0, 0] * 255).round().tolist() == list(range(32))
    assert (inputs[2, 1] * 255).unique().tolist() == [2]
    assert (inputs[4, 2, :, 5] * 255).round().tolist() == list(range(32))


@pytest.mark.parametrize(("classes", "expected"), [(20, [3, 19]), (100, [60, 99])])
def test_cifar_100_has_coarse_and_fine_labels(
    tmp_path: Path, classes: Any, expected: list[int]
) -> None:
    write(tmp_path, "train.bin", [[3, 60], [19, 99]])
    write(tmp_path, "test.bin", [[0, 0]])
    data = Cifar(root=tmp_path, classes=classes)
    (inputs, labels), _ = parts(data)
    assert labels.tolist() == expected
    assert (data.count(), data.outputs) == (2, classes)
    assert (inputs[0, 0, 0] * 255).round().tolist() == list(range(32))


def test_sizes_are_checked_before_a_record_is_read(ten: Path) -> None:
    data = Cifar(root=ten)
    for name in ("data_batch_3.bin", "test_batch.bin"):
        whole = (ten / name).read_bytes()
        for content in (whole[:-1], b"", whole + b"0"):
            (ten / name).write_bytes(content)
            with pytest.raises(DppipeError, match=rf"{name}: expected records of 3073 bytes each"):
                data.check_files()
        (ten / name).write_bytes(whole)
    with pytest.raises(DppipeError, match=r"data\.root: expected a file, got .*train\.bin"):
        Cifar(root=ten, classes=100).check_files()
    (ten / "data_batch_4.bin").unlink()
    with pytest.raises(DppipeError, match=r"data\.root: expected a file, got .*data_batch_4\.bin"):
        data.count()


def test_a_label_out_of_range_is_refused_or_dropped_and_never_shown(ten: Path) -> None:
    write(ten, "data_batch_2.bin", [[2], [77], [9]])
    with pytest.raises(DppipeError, match=r"record 5: expected a label from 0 to 9, got another"):
        Cifar(root=ten).load()
    train: Any = Cifar(root=ten, on_bad_record="drop").load().train
    assert numpy.flatnonzero(~train.valid).tolist() == [4]
