"""Data: where records come from.

One kind a file, named after it; `base` is the contract.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dppipe.lazy import lazy_names

if TYPE_CHECKING:
    from dppipe.data.base import Data, Split, Splits
    from dppipe.data.breast_cancer import BreastCancer
    from dppipe.data.class_path import ClassPathData
    from dppipe.data.csv import Csv
    from dppipe.data.digits import Digits
    from dppipe.data.idx import Idx
    from dppipe.data.npz import Npz
    from dppipe.data.parquet import Parquet
    from dppipe.data.synthetic import Synthetic
    from dppipe.data.text import Text

__all__ = [
    "BreastCancer",
    "ClassPathData",
    "Csv",
    "Data",
    "Digits",
    "Idx",
    "Npz",
    "Parquet",
    "Split",
    "Splits",
    "Synthetic",
    "Text",
]

__getattr__ = lazy_names(
    __name__,
    {
        "BreastCancer": ".breast_cancer",
        "ClassPathData": ".class_path",
        "Csv": ".csv",
        "Data": ".base",
        "Digits": ".digits",
        "Idx": ".idx",
        "Npz": ".npz",
        "Parquet": ".parquet",
        "Split": ".base",
        "Splits": ".base",
        "Synthetic": ".synthetic",
        "Text": ".text",
    },
)
