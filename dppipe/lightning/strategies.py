"""Lightning's data-parallel strategy without the wrapper: the private step sums gradients."""

from __future__ import annotations

import torch.distributed as dist

from dppipe.lightning.names.bases import DDPStrategy, settle
from dppipe.lightning.names.namespaces import name_of


class PrivateDDP(DDPStrategy):
    """Starts and connects processes as `ddp` does, and leaves the module as it is.

    `DistributedDataParallel` would average raw `.grad` across ranks, and break on the private
    step's own backward passes.

    Example:
        >>> import pytorch_lightning as pl
        >>> from dppipe import PrivateDDP
        >>> trainer = pl.Trainer(accelerator="cpu", devices=2, strategy=PrivateDDP())
    """

    def set_world_ranks(self) -> None:
        """Take the import name of the Trainer, whose accelerator is known by now."""
        settle(self, name_of(self.accelerator))
        super().set_world_ranks()

    def configure_ddp(self) -> None:
        """Copy the first rank's weights to every rank instead of wrapping the module."""
        module = self.lightning_module
        if module is not None:
            for tensor in (*module.parameters(), *module.buffers()):
                dist.broadcast(tensor.data, src=0)
