"""Checkpoints that are whole or not there: written beside their name, synced, then renamed onto it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from lightning_fabric.plugins.io.torch_io import TorchCheckpointIO
from lightning_fabric.utilities.types import _PATH

from dppipe.training.run_directory import replacing


class DurableCheckpoints(TorchCheckpointIO):
    """Lightning's own goes through TMPDIR, which on another device is a copy that a kill cuts short."""

    def save_checkpoint(self, checkpoint: dict[str, Any], path: _PATH, storage_options: Any | None = None) -> None:
        """Save a checkpoint, whole or not at all."""
        with replacing(Path(path)) as temporary:
            torch.save(checkpoint, temporary)
