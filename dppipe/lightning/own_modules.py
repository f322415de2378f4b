"""How a spec's model is trained: by the user's own LightningModule, or by dppipe's objective.

If a `training_step` never ran, the model would silently be trained by other code than its author
wrote. So a module that has one is trained by it, or refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from dppipe.errors import UsageError
from dppipe.lightning.names.namespaces import is_lightning_module

if TYPE_CHECKING:
    import pytorch_lightning as pl
    from torch import nn

    from dppipe.spec.spec import Spec


def own_module(network: nn.Module, spec: Spec) -> pl.LightningModule | None:
    """Return a spec's network if it is a LightningModule, of either import name, and None if not.

    An `optimizer` block, a loss and metrics beside a LightningModule are refused, since the module
    brings its own. So is any other network with a `training_step`, which nothing would call.
    """
    kind = type(network).__name__
    if is_lightning_module(network):
        if spec.optimizer is not None:
            raise UsageError(
                f"optimizer: expected none beside {kind}, a LightningModule, which brings its own, "
                "got one. Leave the block out."
            )
        for option in ("loss", "metrics"):
            if getattr(spec.train, option) is not None:
                raise UsageError(
                    f"train.{option}: expected none beside {kind}, a LightningModule, which brings "
                    "its own, got some. Leave the option out."
                )
        return cast("pl.LightningModule", network)
    if callable(getattr(network, "training_step", None)):
        place = "model.class_path" if hasattr(spec.model, "class_path") else "model"
        raise UsageError(
            f"{place}: expected a LightningModule, or a network without a training_step, got "
            f"{kind}, whose training_step would never be called. Derive it from "
            "lightning.LightningModule, or take the method away."
        )
    return None
