"""Options to try on registered kinds, for those that have required ones or ways that defaults don't show."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy

CLIPPERS: dict[str, list[dict[str, Any]]] = {
    "adaclip": [{}, {"max_grad_norm": 0.5, "mean_decay": 0.5, "spread_decay": 0.0}],
    "adaptive": [
        {},
        {"grouping": "layerwise", "max_grad_norm": 2.0},
        {"max_grad_norms": {"first.*": 0.5, "*": 3.0}, "target_unclipped_quantile": 0.9},
    ],
    "automatic": [{}, {"variant": "auto_v"}],
    "global": [
        {},
        {"threshold": 0.1},
        {"variant": "adaptive", "threshold": 2.0, "max_grad_norm": 0.3},
    ],
    "grouped": [
        {"max_grad_norms": {"*": 1.5}},
        {"max_grad_norms": {"*.bias": 0.1, "first.*": 2.0, "*": 1.0}},
    ],
    "jl": [{"projections": 40, "tolerance": 0.8, "delta": 1e-6}],
    "layerwise": [{}, {"shares": "parameters"}, {"max_grad_norms": [1.0, 2.0, 2.0]}],
    "microbatch": [{}, {"size": 2, "max_grad_norm": 0.7}],
}
SAMPLERS: dict[str, list[dict[str, Any]]] = {
    "balls_in_bins": [{"expected_batch_size": 20}, {"expected_batch_size": 70}],
    "full_batch": [{}],
    "poisson": [
        {"expected_batch_size": 20},
        {"sample_rate": 0.005},
        {"sample_rate": 0.7},
        {"sample_rate": 1},
    ],
    "shuffle": [
        {"expected_batch_size": 20},
        {"expected_batch_size": 70},
        {"expected_batch_size": 200},
    ],
    "truncated_poisson": [
        {"expected_batch_size": 20},
        {"expected_batch_size": 20, "max_batch_size": 22},
        {"expected_batch_size": 20, "max_batch_size": 12},
    ],
    "user": [{"expected_batch_size": 20}, {"sample_rate": 0.3, "max_records_per_user": 3}],
    "with_replacement": [{"expected_batch_size": 20}, {"expected_batch_size": 1}],
    "without_replacement": [
        {"expected_batch_size": 20},
        {"expected_batch_size": 150},
        {"expected_batch_size": 200},
    ],
}
"""Options of each sampler for 200 records."""

USER_MODULE = """
from torch import nn

class Net(nn.Module):
    def __init__(self, input_shape, outputs, width):
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(input_shape[0] * input_shape[1], width), nn.Linear(width, outputs))

    def forward(self, x):
        return self.body(x)
"""
MODELS: dict[str, list[dict[str, Any]]] = {
    "class_path": [{"class_path": "contract_nets.Net", "init_args": {"width": 5}}],
    "gru": [{"embedding": 4, "width": 3}, {"embedding": 4, "width": 3, "pooling": "last"}],
    "lstm": [{"embedding": 4, "width": 3, "layers": 2, "bidirectional": True, "dropout": 0.1}],
    "text_bag": [{}, {"mode": "root_mean"}, {"embedding": 4, "hidden": [5], "mode": "sum"}],
    "transformer": [{"width": 8, "heads": 2, "layers": 1, "dropout": 0.1}],
}
LOSSES: dict[str, list[dict[str, Any]]] = {
    "cross_entropy": [{}, {"class_weights": [1, 5]}, {"priors": [0.5, 0.3, 0.2]}],
    "focal": [{}, {"gamma": 0.5}, {"gamma": 0, "priors": [0.9, 0.1]}],
}


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


def write_parquet(folder: Path) -> dict[str, Any]:
    import pyarrow
    from pyarrow import csv, parquet

    options = write_csv(folder)
    read = csv.read_csv(options["path"])
    assert isinstance(read, pyarrow.Table)
    parquet.write_table(read, folder / "d.parquet")
    return {**options, "path": str(folder / "d.parquet")}


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


def write_texts(folder: Path) -> dict[str, Any]:
    words = ["one", "two", "three", "four", "five", "six"]
    lines = ["text\tlabel"]
    for row in range(30):
        said = " ".join([*words[row % 6 :], f"word{row}"])
        lines.append(f"{said}\t{'yes' if row % 2 else 'no'}")
    (folder / "d.tsv").write_text("\n".join(lines))
    return {
        "path": str(folder / "d.tsv"),
        "records": 30,
        "target": {"column": "label", "classes": ["no", "yes"]},
        "tokenizer": {"kind": "words", "buckets": 100},
        "max_length": 8,
    }


DATA: dict[str, Callable[[Path], dict[str, Any]]] = {
    "class_path": write_class,
    "csv": write_csv,
    "idx": write_idx,
    "npz": write_npz,
    "parquet": write_parquet,
    "text": write_texts,
}


def _names_groups(options: dict[str, Any]) -> bool:
    bounds = options.get("max_grad_norms", {})
    return isinstance(bounds, list) or bool(set(bounds) - {"*"})


def variants(block: str, kind: str, folder: Path) -> list[dict[str, Any]]:
    """Return the sets of options to try; files that they name are written to the folder, which is to be the working one."""
    if block == "data":
        return [DATA[kind](folder)] if kind in DATA else [{}]
    (folder / "contract_nets.py").write_text(USER_MODULE)
    if block == "clipping":
        # Patterns and lists name the groups of one model; the checks have several.
        return [options for options in CLIPPERS.get(kind, [{}]) if not _names_groups(options)]
    known = {"loss": LOSSES, "model": MODELS, "sampler": SAMPLERS}
    return known.get(block, {}).get(kind, [{}])
