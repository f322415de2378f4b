"""New files of raw records for each data kind: the same records in another order, columns swapped.

A data kind that isn't named here fails its contract: `RAW` says what a new file of it is.
"""

from __future__ import annotations

import csv
import gzip
import json
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy
import pyarrow
from pyarrow import parquet

from dppipe.data.base import Data
from dppipe.data.published.arrays import published_arrays

Raw = tuple[Path, Any]
"""A file for `dppipe predict`, and the same records for the model of `load_model`."""


def raw_table(data: Any, order: Sequence[int], folder: Path) -> Raw:
    """Write the inputs' columns in another order, without the target, in the other kind of file."""
    if data.path.suffix == ".parquet":
        rows = parquet.read_table(data.path).to_pylist()
    else:
        with data.path.open(newline="") as file:
            rows = list(csv.DictReader(file))
    names = [column.column for column in data.inputs.columns][::-1]
    chosen = [{name: rows[place][name] for name in names} for place in order]
    new = folder / ("new.csv" if data.path.suffix == ".parquet" else "new.parquet")
    if new.suffix == ".parquet":
        parquet.write_table(pyarrow.Table.from_pylist(chosen), new)
        return new, chosen
    with new.open("w", newline="") as file:
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerows(chosen)
    return new, chosen


def raw_array(inputs: numpy.ndarray, order: Sequence[int], folder: Path) -> Raw:
    import torch

    chosen = inputs[numpy.asarray(order)]
    numpy.save(folder / "new.npy", chosen)
    return folder / "new.npy", torch.from_numpy(chosen)


def raw_digits(data: Data, order: Sequence[int], folder: Path) -> Raw:
    return raw_array(published_arrays("digits")[0].reshape(-1, 1, 8, 8), order, folder)


def raw_tumours(data: Data, order: Sequence[int], folder: Path) -> Raw:
    return raw_array(published_arrays("breast_cancer")[0], order, folder)


def raw_archive(data: Any, order: Sequence[int], folder: Path) -> Raw:
    with numpy.load(data.path) as archive:
        return raw_array(archive[data.x], order, folder)


def raw_images(data: Any, order: Sequence[int], folder: Path) -> Raw:
    """Write an IDX file, gzipped."""
    import torch

    content = (data.root / "train-images-idx3-ubyte").read_bytes()[16:]
    images = numpy.frombuffer(content, dtype=numpy.uint8).reshape(-1, 6, 5)[numpy.asarray(order)]
    header = struct.pack(">HBBIII", 0, 8, 3, *images.shape)
    new = folder / "new-images.gz"
    new.write_bytes(gzip.compress(header + images.tobytes()))
    return new, torch.from_numpy(images[:, None].copy())


def raw_texts(data: Any, order: Sequence[int], folder: Path) -> Raw:
    """Write the texts as JSON lines, without their targets."""
    with data.path.open(newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    (column,) = data.text_columns
    chosen = [{column: rows[place][column]} for place in order]
    new = folder / "new.jsonl"
    new.write_text("".join(json.dumps(row) + "\n" for row in chosen))
    return new, chosen


def loaded(data: Data, order: Sequence[int], folder: Path) -> Raw:
    """Write the inputs as the data loads them before it scales them."""
    unscaled = {"normalize": None} if "normalize" in type(data).model_fields else {}
    dataset: Any = data.model_copy(update=unscaled).load()
    inputs = numpy.stack([numpy.asarray(dataset[place][0]) for place in range(len(dataset))])
    return raw_array(inputs, order, folder)


def raw_class(data: Any, order: Sequence[int], folder: Path) -> Raw:
    if data.class_path.startswith("dppipe.data."):
        return raw_digits(data, order, folder)
    return loaded(data, order, folder)


RAW: dict[str, Callable[[Any, Sequence[int], Path], Raw]] = {
    "breast_cancer": raw_tumours,
    "class_path": raw_class,
    "csv": raw_table,
    "digits": raw_digits,
    "idx": raw_images,
    "npz": raw_archive,
    "parquet": raw_table,
    "synthetic": loaded,
    "text": raw_texts,
}
