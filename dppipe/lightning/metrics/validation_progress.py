"""Validation progress in checkpoints: its batch counts tell how many records there are."""

from __future__ import annotations

from typing import Any


def forget_validation(checkpoint: dict[str, Any]) -> None:
    """Set the counters of the validation loop to zero, in place; every validation starts there."""
    fit_loop = checkpoint.get("loops", {}).get("fit_loop", {})
    progress = fit_loop.get("epoch_loop.val_loop.batch_progress", {})
    for name in ("total", "current"):
        progress[name] = dict.fromkeys(progress.get(name, {}), 0)
    progress["is_last_batch"] = False
