"""The start of a data kind."""

from __future__ import annotations

from dppipe.plugin_kit.starters.starter import Starter

PLUGIN = '''\
"""A plugin data kind: put the reading of your own records into `load`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dppipe import Data, Field

if TYPE_CHECKING:
    from torch.utils.data import TensorDataset

    from dppipe.data.base import Task


class $class_name(Data, kind="$kind"):
    """Points in the plane, and whether each lies outside a circle."""

    size: int = Field(1000, gt=0, description="The number of records.")

    # A plan needs these without reading a record: from options, a file's header or constants.

    @property
    def task(self) -> Task:
        return "binary"

    @property
    def input_shape(self) -> tuple[int, ...]:
        return (2,)

    @property
    def outputs(self) -> int:
        return 1

    def count(self) -> int:
        return self.known_count(self.size)

    def load(self) -> TensorDataset:
        import torch
        from torch.utils.data import TensorDataset

        points = torch.randn(self.size, 2, generator=torch.Generator().manual_seed(0))
        return TensorDataset(points, (points.norm(dim=1) > 1.2).float())
'''

TEST = """

def test_both_classes_are_there() -> None:
    points, outside = $class_name(size=200).load().tensors
    assert points.shape == (200, 2)
    assert torch.unique(outside).tolist() == [0.0, 1.0]
"""

STARTER = Starter(
    "data",
    "Data",
    PLUGIN,
    TEST,
    "{kind: $kind, size: 1000, holdout: public}",
    {"train": "{epochs: 20}"},
)
