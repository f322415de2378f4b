"""Breast cancer (Wisconsin, diagnostic): 569 records that come with dppipe.

Source: Street, Wolberg and Mangasarian 1993. Features are scaled by the rounded ranges of the
dataset's published description: constants that are fitted to nothing here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from dppipe.component import Field
from dppipe.data.base import Data, Task
from dppipe.data.features.option import Features
from dppipe.data.reading.scaling import Constants

if TYPE_CHECKING:
    import numpy
    from torch.utils.data import TensorDataset

    from dppipe.data.reading.limits import Limits

_RANGES = {  # of a cell nucleus, for each measure: mean, standard error, worst
    "radius": ((5, 30), (0, 3), (5, 40)),
    "texture": ((5, 40), (0, 5), (10, 50)),
    "perimeter": ((40, 190), (0, 22), (50, 250)),
    "area": ((100, 2500), (0, 550), (100, 4300)),
    "smoothness": ((0.05, 0.17), (0, 0.03), (0.05, 0.22)),
    "compactness": ((0, 0.35), (0, 0.14), (0, 1.1)),
    "concavity": ((0, 0.45), (0, 0.4), (0, 1.3)),
    "concave points": ((0, 0.2), (0, 0.05), (0, 0.3)),
    "symmetry": ((0.1, 0.3), (0, 0.08), (0.15, 0.65)),
    "fractal dimension": ((0.05, 0.1), (0, 0.03), (0.05, 0.2)),
}


def _limits() -> numpy.ndarray:  # -> [2, 30]
    """Return the lowest and the highest value of each measure."""
    import numpy

    limits: list[tuple[float, float]] = []
    for which in range(3):
        limits += [ranges[which] for ranges in _RANGES.values()]
    return numpy.array(limits).T


class BreastCancer(Data, kind="breast_cancer"):
    """Thirty measures of a tumour's cells; the target is 1 for benign and 0 for malignant."""

    checks_records: ClassVar[bool] = True

    features: Features = Field(
        None,
        description="What inputs become before the model sees them: orientation histograms or "
        "private principal components.",
    )

    @property
    def task(self) -> Task:
        return "binary"

    @property
    def input_shape(self) -> tuple[int, ...]:
        return (30,)

    @property
    def outputs(self) -> int:
        return 1

    @property
    def public_scaling(self) -> tuple[Constants | Limits, ...]:
        low, high = _limits()
        quarter = (high - low) / 4
        return (Constants(mean=tuple((low + quarter).tolist()), std=tuple(quarter.tolist())),)

    def count(self) -> int:
        return self.known_count(569)

    def load(self) -> TensorDataset:
        import numpy

        from dppipe.data.published.arrays import published_arrays
        from dppipe.data.reading.tensors import make_classified

        measures, labels = published_arrays("breast_cancer")
        low, high = _limits()
        # Most measures are in the lower half of their range, so a quarter of the range maps to 0.
        inputs = (4 * (measures - low) / (high - low) - 1).astype(numpy.float32)
        return make_classified(inputs, labels, classes=2, place="breast_cancer")
