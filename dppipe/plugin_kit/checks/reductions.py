"""Watches torch for reductions over dimension 0: on one example's `[groups]` they can only come
from a mistaken shape.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor
from torch.overrides import TorchFunctionMode

_SECOND = (
    "norm",
    "vector_norm",
    "linalg_vector_norm",
    "quantile",
    "nanquantile",
    "kthvalue",
    "topk",
)
_FIRST = (
    *(
        "mean",
        "nanmean",
        "sum",
        "nansum",
        "prod",
        "std",
        "var",
        "std_mean",
        "var_mean",
        "median",
        "nanmedian",
        "mode",
    ),
    *(
        "amax",
        "amin",
        "aminmax",
        "max",
        "min",
        "argmax",
        "argmin",
        "all",
        "any",
        "count_nonzero",
        "logsumexp",
    ),
    *("softmax", "log_softmax", "cumsum", "cumprod", "cummax", "cummin", "sort", "argsort"),
)
_DIM_AT = dict.fromkeys(_FIRST, 1) | dict.fromkeys(_SECOND, 2)
"""Where each function takes its dimension by position."""


class Reductions(TorchFunctionMode):
    """Notes every reduction over dimension 0 by its name while it is entered."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Call the function, and note it if it reduces over dimension 0."""
        named = dict(kwargs or {})
        name = getattr(func, "__name__", "")
        if name in _DIM_AT and args and isinstance(args[0], Tensor):
            at = _DIM_AT[name]
            dim = named.get("dim", named.get("axis", args[at] if len(args) > at else None))
            dims = dim if isinstance(dim, (tuple, list)) else (dim,)
            if any(type(each) is int and each == 0 for each in dims):
                self.found.append(name.removeprefix("linalg_"))
        return func(*args, **named)
