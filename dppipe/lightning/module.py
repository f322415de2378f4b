"""The Lightning module of a spec's model: a network, its objective, optimizer and metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from dppipe.lightning.names.bases import LightningModule

if TYPE_CHECKING:
    from dppipe.lightning.objectives import Objective
    from dppipe.optim.base import Optimizer


class SpecModule(LightningModule):
    """Trains `network` by `objective`.

    The private step computes the gradient, so there is no training loss to log.
    """

    def __init__(
        self, network: nn.Module, *, objective: Objective, optimizer: Optimizer, steps: int
    ) -> None:
        super().__init__()
        self.network = network
        self.objective = objective
        self._optimizer = optimizer
        self._steps = steps
        self.val_metrics = objective.metrics("val/")

    def forward(self, inputs: Any) -> Tensor:
        """Return the network's predictions."""
        predictions: Tensor = self.network(inputs)
        return predictions

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        """Return the batch's mean loss; the DP callback replaces this by the private step."""
        return self.objective.per_sample_loss(self.network, batch).mean()

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        """Score one batch of the holdout."""
        inputs, targets = batch
        self.objective.score(self.val_metrics, self(inputs), targets)
        self.log_dict(self.val_metrics, on_epoch=True)

    def configure_optimizers(self) -> Any:
        """Build the optimizer and, on logical steps, its learning-rate schedule."""
        optimizer = self._optimizer.prepare(p for p in self.network.parameters() if p.requires_grad)
        scheduler = self._optimizer.schedule.build(optimizer, steps=self._steps)
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": scheduler, "interval": "step"},
        }
