"""The files of a run, read without dppipe."""

from __future__ import annotations

import json
from collections import defaultdict
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
import yaml


class Files:
    """What one run directory holds."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.plan = _json(path / "plan.json")
        self.summary = _json(path / "summary.json")
        self.statement = _json(path / "privacy.json")
        self.origin = _json(path / "origin.json")
        self.config = yaml.safe_load((path / "config.yaml").read_text())
        lines = (path / "ledger.jsonl").read_bytes().splitlines()
        self.rows = [json.loads(line) for line in lines]
        self.released = [row for row in self.rows if "step" not in row]
        self.steps = [row for row in self.rows if "step" in row]

    @cached_property
    def checkpoint(self) -> dict[str, Any]:
        return torch.load(self.path / "checkpoints" / "last.ckpt", weights_only=True)

    @property
    def state(self) -> dict[str, Any]:
        """The callback's part of the checkpoint."""
        return self.checkpoint["callbacks"]["DPCallback"]

    @cached_property
    def weights(self) -> dict[str, torch.Tensor]:
        return torch.load(self.path / "checkpoints" / "final.ckpt", weights_only=True)

    @cached_property
    def curves(self) -> dict[str, list[tuple[int, float]]]:
        """The points of every curve, over all lives, by their steps."""
        from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

        found: dict[str, list[tuple[int, float]]] = defaultdict(list)
        for file in self.path.glob("events.out.tfevents.*"):
            for event in EventFileLoader(str(file)).Load():
                for value in event.summary.value:
                    if value.tensor.float_val:  # not a layout or a text
                        found[value.tag].append((event.step, value.tensor.float_val[0]))
        return {tag: sorted(points) for tag, points in found.items()}

    def planned(self, runs: str, field: str, *, default: Any) -> list[Any]:
        """Return a number of each planned step: the plan lists runs of equal ones."""
        values = [run[field] for run in self.plan[runs] for _ in range(run["steps"])]
        return values or [default] * self.plan["steps"]

    def epsilon_after(self, step: int) -> float:
        """Return what the plan's curve says of a step."""
        return next(point["epsilon"] for point in self.plan["curve"] if point["step"] >= step)


def _json(path: Path) -> Any:
    return json.loads(path.read_text())
