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
    from dppipe.models.gru import Gru
    from dppipe.models.logistic import Logistic
    from dppipe.models.lstm import Lstm
    from dppipe.models.mlp import Mlp
    from dppipe.models.tab_mlp import TabMlp
    from dppipe.models.text_bag import TextBag
    from dppipe.models.transformer import Transformer

__all__ = [
    "ClassPathModel",
    "Cnn",
    "Gru",
    "Logistic",
    "Lstm",
    "Mlp",
    "Model",
    "TabMlp",
    "TextBag",
    "Transformer",
]

__getattr__ = lazy_names(
    __name__,
    {
        "ClassPathModel": ".class_path",
        "Cnn": ".cnn",
        "Gru": ".gru",
        "Logistic": ".logistic",
        "Lstm": ".lstm",
        "Mlp": ".mlp",
        "Model": ".base",
        "TabMlp": ".tab_mlp",
        "TextBag": ".text_bag",
        "Transformer": ".transformer",
    },
)
