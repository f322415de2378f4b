"""Models: options that build a network.

One kind a file, named after it; `base` is the contract.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dppipe.lazy import lazy_names

if TYPE_CHECKING:
    from dppipe.models.base import Model
    from dppipe.models.class_path import ClassPathModel
    from dppipe.models.cnn import Cnn
    from dppipe.models.logistic import Logistic
    from dppipe.models.mlp import Mlp
    from dppipe.models.tab_mlp import TabMlp

__all__ = ["ClassPathModel", "Cnn", "Logistic", "Mlp", "Model", "TabMlp"]

__getattr__ = lazy_names(
    __name__,
    {
        "ClassPathModel": ".class_path",
        "Cnn": ".cnn",
        "Logistic": ".logistic",
        "Mlp": ".mlp",
        "Model": ".base",
        "TabMlp": ".tab_mlp",
    },
)
