"""Lightning's data-parallel strategy without the wrapper: gradients are summed by the private step, once, as clipped sums."""

from __future__ import annotations

import torch.distributed as dist

from dppipe.lightning.bases import DDPStrategy, settle
from dppipe.lightning.namespaces import name_of


class PrivateDDP(DDPStrategy):
    """Starts and connects processes as `ddp` does, and leaves the module as it is.

    `DistributedDataParallel` would average raw `.grad` across ranks and break on the private step's own backward passes.
    """

    def set_world_ranks(self) -> None:
        """Take on the import name of the Trainer, which has handed over its accelerator by now."""
        settle(self, name_of(self.accelerator))
        super().set_world_ranks()

    def configure_ddp(self) -> None:
        """Give every rank the first rank's weights instead of wrapping the module."""
        if self.lightning_module is not None:
            for tensor in (*self.lightning_module.parameters(), *self.lightning_module.buffers()):
                dist.broadcast(tensor.data, src=0)
