"""The one context in which norms and clipped sums are computed, whatever precision the model runs in.

Inside it there is no autocast, and a product of float32 matrices is computed in float32: oneDNN
would take bfloat16, and cuBLAS and cuDNN TF32, where the user's settings allow it. The model's own
forward and backward pass keep the user's settings. `Tape` and `Engine` enter the context around all
arithmetic of the engine, so no rule needs to think of it. What the arithmetic then guarantees stands
in `ROUNDING.md`.
"""

from __future__ import annotations

from types import TracebackType

import torch

Setting = tuple[str, str]
"""A backend and an operation, as torch names them: what a precision of float32 products is set for."""

FULL = ("none", "ieee")
"""Values under which a float32 product is one. `none` follows the setting above, and is full at the top."""
PRODUCTS: dict[str, tuple[Setting, ...]] = {
    "cpu": (("mkldnn", "matmul"), ("mkldnn", "conv")),
    "cuda": (("cuda", "matmul"), ("cuda", "conv")),
}
"""The settings that decide how float32 products are computed, for each kind of device."""

_read = torch._C._get_fp32_precision_getter
_write = torch._C._set_fp32_precision_setter


class exact:  # noqa: N801 (a context manager reads like a function)
    """Compute without autograd, outside autocast and in full float32; then restore every setting."""

    def __init__(self, device: torch.device) -> None:
        self._device = device.type
        self._no_grad = torch.no_grad()
        self._autocast: torch.autocast | None = None
        self._precision: FullPrecision | None = None

    def __enter__(self) -> None:
        """Change only what stands in the way: this runs once for each layer of each step."""
        self._no_grad.__enter__()
        if torch.amp.is_autocast_available(self._device) and torch.is_autocast_enabled(
            self._device
        ):
            self._autocast = torch.autocast(self._device, enabled=False)
            self._autocast.__enter__()  # type: ignore[no-untyped-call]
        settings = PRODUCTS.get(self._device, ())
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
        self._no_grad.__exit__(kind, error, trace)


class FullPrecision:
    """Full precision of float32 products, and the way back to the settings before it.

    Torch has two interfaces to these settings. `set_float32_matmul_precision`, the older one, is used
    where the user has used it: torch raises on reading it after only the newer one was changed.
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
    """Return the older interface's value; `highest` where the two disagree and it can't be read."""
    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:
        return "highest"


def _own_value(setting: Setting) -> str:
    """Return a setting's own value: `none` where it follows the one above, which shows by moving that."""
    value = _read(*setting)
    above = _above(setting)
    if above is None or value != _read(*above):
        return value
    before = _own_value(above)
    moved = "tf32" if value == "ieee" else "ieee"
    _write(*above, moved)
    follows = _read(*setting) == moved
    _write(*above, before)
    return "none" if follows else value


def _above(setting: Setting) -> Setting | None:
    backend, operation = setting
    if operation != "all":
        return backend, "all"
    return ("generic", "all") if backend != "generic" else None
