"""The one context in which norms and clipped sums are computed, in whichever precision models run.

Inside it there is no autocast, and a product of float32 matrices is computed in float32. (oneDNN
would use bfloat16, and cuBLAS and cuDNN TF32, where the user's settings allow it.) The model's own
forward and backward pass keep the user's settings. `Tape` and `Engine` enter the context around all
arithmetic of the engine, so no rule has to. `gradients/ROUNDING.md` shows what the arithmetic then
guarantees.
"""

from __future__ import annotations

from functools import lru_cache
from types import TracebackType

import torch

Setting = tuple[str, str]
"""A backend and an operation, as torch names them, for which a precision is set."""

FULL = ("none", "ieee")
"""Values under which float32 products are computed in float32.

`none` follows the setting above, and means full precision at the top.
"""
PRODUCTS: dict[str, tuple[Setting, ...]] = {
    "cpu": (("mkldnn", "matmul"), ("mkldnn", "conv")),
    "cuda": (("cuda", "matmul"), ("cuda", "conv")),
}
"""The settings that decide how float32 products are computed, for each kind of device."""

_read = torch._C._get_fp32_precision_getter
_write = torch._C._set_fp32_precision_setter


class exact:  # noqa: N801 (a context manager reads like a function)
    """Compute without autograd, outside autocast and in full float32; then restore all settings."""

    def __init__(self, device: torch.device) -> None:
        self._device = device.type
        self._grad = False
        self._autocast: torch.autocast | None = None
        self._precision: FullPrecision | None = None

    def __enter__(self) -> None:
        """Change only the settings that differ: this runs once for each layer of each step."""
        device = self._device
        self._grad = torch.is_grad_enabled()
        torch._C._set_grad_enabled(False)  # without the layers of torch.no_grad
        if _has_autocast(device) and torch.is_autocast_enabled(device):
            self._autocast = torch.autocast(device, enabled=False)
            self._autocast.__enter__()  # type: ignore[no-untyped-call]
        settings = PRODUCTS.get(device, ())
        for setting in settings:
            if _read(*setting) not in FULL:
                self._precision = FullPrecision(settings)
                break

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Restore what was changed, in the opposite order."""
        if self._precision is not None:
            self._precision.restore()
            self._precision = None
        if self._autocast is not None:
            self._autocast.__exit__(kind, error, trace)
            self._autocast = None
        torch._C._set_grad_enabled(self._grad)


@lru_cache
def _has_autocast(device: str) -> bool:
    return torch.amp.is_autocast_available(device)


class FullPrecision:
    """Full precision of float32 products, until the earlier settings are restored.

    Torch has two interfaces to these settings. The older one, `set_float32_matmul_precision`, is
    used where the user has used it: torch raises if it is read after only the newer one changed.
    """

    def __init__(self, settings: tuple[Setting, ...]) -> None:
        self._matmul = _matmul_precision()
        self._before = {setting: _own_value(setting) for setting in settings}
        if self._matmul != "highest":
            torch.set_float32_matmul_precision("highest")
        for setting in settings:
            if _read(*setting) not in FULL:
                _write(*setting, "ieee")

    def restore(self) -> None:
        """Restore the settings as they were."""
        if self._matmul != "highest":
            torch.set_float32_matmul_precision(self._matmul)
        for setting, value in self._before.items():
            if _own_value(setting) != value:
                _write(*setting, value)


def _matmul_precision() -> str:
    """Return the older interface's value; `highest` if the two disagree and it can't be read."""
    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:
        return "highest"


def _own_value(setting: Setting) -> str:
    """Return a setting's own value: `none` if it follows the setting above.

    The setting above is changed for a moment to see whether it does.
    """
    value = _read(*setting)
    above = _above(setting)
    if above is None or value != _read(*above):
        return value
    before = _own_value(above)
    other = "tf32" if value == "ieee" else "ieee"
    _write(*above, other)
    follows = _read(*setting) == other
    _write(*above, before)
    return "none" if follows else value


def _above(setting: Setting) -> Setting | None:
    backend, operation = setting
    if operation != "all":
        return backend, "all"
    return ("generic", "all") if backend != "generic" else None
