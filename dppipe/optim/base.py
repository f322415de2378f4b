"""What an optimizer kind is: options that build an ordinary torch optimizer.

The optimizer sees only privatised gradients. Whatever it does with them, weight decay and schedules
included, is post-processing: it costs no privacy.
Read next: `sgd.py`, `schedules/base.py` (the learning rate over a run), `averaging/base.py`,
`projection.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from dppipe.component import Component, Field
from dppipe.optim.projection import Projection
from dppipe.spec.component_field import ComponentOf, default_component

if TYPE_CHECKING:
    from torch import nn
    from torch.optim import Optimizer as TorchOptimizer

    from dppipe.optim.averaging.base import Averaging
    from dppipe.optim.schedules.base import LRSchedule
else:
    Averaging = Annotated[Component, ComponentOf("averaging")]
    LRSchedule = Annotated[Component, ComponentOf("schedule")]


class Optimizer(Component):
    """An optimizer by its options.

    Example:
        >>> from torch import nn
        >>> from dppipe.optim import Sgd
        >>> type(Sgd(lr=0.1, momentum=0.9).build(nn.Linear(2, 1).parameters()))
        <class 'torch.optim.sgd.SGD'>
    """

    uses_noise: ClassVar[bool] = False
    """Whether it asks for the size of the noise (`known_noise.py`)."""

    schedule: LRSchedule = Field(
        default_factory=default_component("schedule", "constant"),
        description="The learning rate over the run.",
    )
    averaging: Averaging | None = Field(
        None, description="Which mean of the weights is validated and saved; else the last one is."
    )

    project: Projection | None = Field(
        None, description="A ball that the trained parameters are put back into after each update."
    )

    def build(self, params: Iterable[nn.Parameter]) -> TorchOptimizer:
        """Build the optimizer of these parameters."""
        raise self.unwritten("build(params)")

    def prepare(self, params: Iterable[nn.Parameter]) -> TorchOptimizer:
        """Build the optimizer, and have it project where that is asked for."""
        optimizer = self.build(params)
        if self.project is not None:
            self.project.follow(optimizer)
        return optimizer


def torch_options(optimizer: Optimizer) -> dict[str, Any]:
    """Return the options that a kind adds to those of every optimizer, for torch's own class."""
    own = set(type(optimizer).model_fields) - set(Optimizer.model_fields)
    return {name: getattr(optimizer, name) for name in own}
