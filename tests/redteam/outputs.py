"""What a run leaves outside of itself: its files, console, exit code, warnings and messages, as facts.

Run ids, clock times, durations and inodes are taken out, and so are the *values* (not the names) of what says of itself that it
isn't private. Both runs of a pair stand in a directory of the same path, so paths need no treatment.
"""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import torch
from redteam.facts import Facts, describe

GIVEN = ("spec.yaml", "records.csv", "records.npz")
"""What a run is given, not what it leaves."""
TAKEN_OUT = {
    "summary.json": ("seconds", "begun", "ended"),
    "privacy.json": ("begun", "ended"),
    "origin.json": ("inode", "changed", "run", "begun"),
    "last.ckpt": ("run",),
    "finished_runs.jsonl": ("run",),
}
"""Of some files, the last part of the places that hold clock times, inodes or the run's id."""
TEXT = [
    (re.compile(r"events\.out\.tfevents\.[\w.-]+"), "events.out.tfevents.*"),
    (re.compile(r"0x[0-9a-f]{6,}"), "<address>"),
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?Z?"), "<time>"),
    (re.compile(r"\b\d+(\.\d+)? s\b"), "<seconds>"),
    (re.compile(r"\b\d+(\.\d+)?/s\b"), "<speed>"),
    (re.compile(r"(nonprivate/\S+)\s+\S+"), r"\1 <not private>"),
]
"""What is taken out of text."""


def plain_text(text: str) -> str:
    """Return a text without what two runs on the same data would differ in."""
    for pattern, instead in TEXT:
        text = pattern.sub(instead, text)
    return text


def text_facts(text: str, place: str = "line") -> Facts:
    """Return a text line by line."""
    return {
        f"{place} {number}": line for number, line in enumerate(plain_text(text).splitlines(), 1)
    }


def files_of(folder: Path) -> dict[str, Facts]:
    """Return what every file under a folder holds, by the file's name."""
    found: dict[str, Facts] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name not in GIVEN:
            name = plain_text(str(path.relative_to(folder)))
            found.setdefault(name, {}).update(_taken_out(path.name, read_file(path)))
    return found


def read_file(path: Path) -> Facts:
    """Return what a file holds, as finely as its format allows."""
    if path.name.startswith("events.out.tfevents"):
        return _curves(path)
    if path.suffix in (".ckpt", ".pt"):
        return _unshown(describe(torch.load(path, weights_only=True, map_location="cpu")))
    if path.suffix == ".json":
        return _unshown(describe(json.loads(path.read_text())))
    if path.suffix == ".jsonl":
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        return _unshown(describe(rows))
    if path.suffix == ".csv":
        with path.open(newline="") as file:
            return _unshown(describe(list(csv.DictReader(file))))
    try:
        return text_facts(path.read_text())
    except UnicodeDecodeError:
        return {"bytes": path.read_bytes().hex()}


def _curves(path: Path) -> Facts:
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
    from tensorboard.util.tensor_util import make_ndarray

    facts: Facts = {}
    for event in EventFileLoader(str(path)).Load():
        for value in event.summary.value:
            content: Any = (
                make_ndarray(value.tensor)
                if value.HasField("tensor")
                else value.SerializeToString()
            )
            if isinstance(content, bytes):
                shown = repr(content)
            elif value.metadata.plugin_data.plugin_name == "text":  # such as the statement
                texts = [each.decode() for each in content.flatten().tolist()]
                shown = plain_text("\n".join(texts))
            elif content.dtype == object:
                shown = repr(content)
            else:
                shown = repr(float(content)) if content.ndim == 0 else repr(content.tolist())
            if value.tag.startswith("nonprivate/"):
                facts[value.tag] = shown  # whether there is a value at a step isn't private either
            else:
                facts[f"{value.tag} at step {event.step}"] = shown
    return _unshown(facts)


def _unshown(facts: Facts) -> Facts:
    return {
        place: "<not private>" if "nonprivate/" in place else text for place, text in facts.items()
    }


def _taken_out(name: str, facts: Facts) -> Facts:
    parts = TAKEN_OUT.get(name, ())
    return {
        place: "<taken out>" if place.rsplit(".", 1)[-1] in parts else text
        for place, text in facts.items()
    }
