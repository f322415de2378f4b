"""Splits, networks and scores written down once more, in NumPy: what a run's metrics are compared with."""

from __future__ import annotations

import csv
import hashlib
import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy
from numpy.typing import NDArray
from whole_runs.files import Files

Numbers = NDArray[numpy.float64]


class Table(NamedTuple):
    """All records of a run's data."""

    inputs: Numbers
    targets: Numbers
    users: list[str] | None = None


def expected_metrics(run: Files, part: str) -> dict[str, float]:
    """Return the metrics of a run's final model on its validation or test records."""
    table = read_table(run)
    chosen = parts_of(run, table)[part]
    inputs = table.inputs[chosen]
    if (run.path / "statistics.json").exists():
        constants = json.loads((run.path / "statistics.json").read_text())
        mean, std = (numpy.array(constants[name]) for name in ("mean", "std"))
        inputs = (inputs - mean) / std
    return _scores(run, _predict(run, inputs.reshape(len(inputs), -1)), table.targets[chosen])


def read_table(run: Files) -> Table:
    """Read the records: a table by the csv module, made-up ones and images as they come."""
    data = run.config["data"]
    if data["kind"] == "csv":
        with Path(data["path"]).open(newline="") as file:
            rows = list(csv.DictReader(file))
        columns = []
        for column in data["numeric"]:
            values = numpy.array([float(row[column["column"]]) for row in rows])
            columns.append((values - column["mean"]) / column["std"])
        target = data["target"]
        targets = numpy.array([float(row[target["column"]]) for row in rows])
        if target.get("std") is not None:
            targets = (targets - target["mean"]) / target["std"]
        return Table(numpy.stack(columns, axis=1), targets, [row["patient"] for row in rows])
    if data["kind"] == "digits":
        from sklearn.datasets import load_digits

        digits = load_digits()
        return Table(digits.images[:, None] / 16, digits.target)
    from dppipe.data import Synthetic

    made = Synthetic(size=data["size"], features=data["features"], classes=data["classes"])
    inputs, targets = made.load().tensors
    return Table(inputs.numpy(), targets.numpy())


def parts_of(run: Files, table: Table) -> dict[str, Any]:
    """Return the places of the records of each part."""
    data, seed = run.config["data"], run.config["seed"]
    shares = data["split"]
    if run.plan["split"] == "hash":
        return _parts_by_hash(table, shares, seed=seed)
    users = sorted(set(table.users or ())) if run.plan["unit"] == "user" else None
    count = len(table.inputs) if users is None else len(users)
    order = numpy.argsort(numpy.random.PCG64(seed).random_raw(count), kind="stable").tolist()
    val, test = int(shares["val"] * count), int(shares["test"] * count)
    train = min(round(shares["train"] * count), count - val - test)
    ends = {"train": (0, train), "val": (train, train + val), "test": (train + val, train + val + test)}  # fmt: skip
    found = {}
    for part, (start, end) in ends.items():
        units = set(order[start:end])
        places = range(len(table.inputs))
        if users is None:
            found[part] = [place for place in places if place in units]
        else:
            owners = table.users or []
            found[part] = [place for place in places if users.index(owners[place]) in units]
    return found


def _parts_by_hash(table: Table, shares: dict[str, float], *, seed: int) -> dict[str, Any]:
    """Return the parts of records whose hash decides: a number from 0 to 1 falls into a share."""
    key = seed.to_bytes(8, "little")
    found: dict[str, list[int]] = {"train": [], "val": [], "test": []}
    width = table.inputs.shape[1]
    header = f"sequence 2:0;tensor float32 [{width}]:{4 * width};tensor int64 []:8\n".encode()
    for place, (row, target) in enumerate(zip(table.inputs, table.targets, strict=True)):
        hasher = hashlib.blake2b(key=key, person=b"dppipe split 1", digest_size=8)
        hasher.update(header + row.tobytes() + target.tobytes())
        number = (int.from_bytes(hasher.digest(), "little") >> 11) / 2**53
        low = 0.0
        for part in found:
            if low <= number < low + shares[part]:
                found[part].append(place)
            low += shares[part]
    return found


def _predict(run: Files, values: Numbers) -> Numbers:
    """Apply the final model: a hidden layer with tanh, and a linear one."""
    first, bias, second, last = (value.double().numpy() for value in run.weights.values())
    return numpy.tanh(values @ first.T + bias) @ second.T + last


def _scores(run: Files, outputs: Numbers, targets: Numbers) -> dict[str, float]:
    data = run.config["data"]
    target = data.get("target")
    if target is None:
        return {"accuracy": float((outputs.argmax(1) == targets).mean())}
    flat = outputs[:, 0]
    if target.get("classes"):
        ahead = flat[targets == 1][:, None] - flat[targets == 0][None, :]
        area = ((ahead > 0) + 0.5 * (ahead == 0)).mean()
        return {"accuracy": float(((flat > 0) == targets).mean()), "auroc": float(area)}
    errors = (flat - targets) ** 2
    spread = ((targets - targets.mean()) ** 2).mean()
    return {"mse": float(errors.mean()), "r2": float(1 - errors.mean() / spread)}
