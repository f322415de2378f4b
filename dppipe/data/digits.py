"""Handwritten digits, 8 x 8 pixels: 1797 records that come with dppipe.

Source: Alpaydin and Kaynak 1998; `published/README.md` has the licence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from dppipe.component import Field
from dppipe.data.base import Data, Task
from dppipe.data.features.option import Features
from dppipe.data.reading.normalize import Normalize
from dppipe.data.reading.scaling import Constants

if TYPE_CHECKING:
    from torch.utils.data import TensorDataset

    from dppipe.data.reading.limits import Limits

_BLACK = 16


class Digits(Data, kind="digits"):
    """Images of the digits 0 to 9; a pixel counts 0 to 16 and is divided by 16."""

    checks_records: ClassVar[bool] = True

    normalize: Normalize = Field(
        None,
        description="Constants or private statistics: "
        "a pixel from 0 to 1 becomes (pixel - mean) / std.",
    )
    features: Features = Field(
        None,
        description="What inputs become before the model sees them: orientation histograms or "
        "private principal components.",
    )

    @property
    def task(self) -> Task:
        return "multiclass"

    @property
    def input_shape(self) -> tuple[int, ...]:
        return (1, 8, 8)

    @property
    def outputs(self) -> int:
        return 10

    @property
    def public_scaling(self) -> tuple[Constants | Limits, ...]:
        return (Constants(std=(_BLACK,)), *super().public_scaling)

    def count(self) -> int:
        return self.known_count(1797)

    def load(self) -> TensorDataset:
        from dppipe.data.published.arrays import published_arrays
        from dppipe.data.reading.tensors import make_classified

        images, labels = published_arrays("digits")
        inputs = (images / _BLACK).astype("float32").reshape(-1, 1, 8, 8)
        if self.normalize is not None:
            self.normalize.apply(inputs)
        return make_classified(inputs, labels, classes=10, place="digits")
