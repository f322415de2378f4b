"""Norms and sums ignore autocast and the user's matrix precision; the model keeps both, and
settings come back as they were.
"""

from __future__ import annotations

import contextlib
import os

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from dppipe.clipping import Flat
from dppipe.engine import Engine
from dppipe.engine.exact import FULL, PRODUCTS, exact

# Without it oneDNN's bf16 kernels can stop with an illegal instruction on machines that advertise
# AMX but don't grant it.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")

BOUND = 0.5
SLACK = 1e-5
"""What docs/clipping.md states."""
ABOVE = (("mkldnn", "all"), ("cuda", "all"), ("generic", "all"))


def settings():
    try:
        matmul = torch.get_float32_matmul_precision()
    except RuntimeError:
        matmul = "mixed"
    chosen = [
        torch._C._get_fp32_precision_getter(*name)
        for name in (*PRODUCTS["cpu"], *PRODUCTS["cuda"], *ABOVE)
    ]
    return matmul, torch.is_autocast_enabled("cpu"), torch.is_grad_enabled(), *chosen


def old_interface(value):
    return lambda: torch.set_float32_matmul_precision(value)


def new_interface(backend, operation, value):
    return lambda: torch._C._set_fp32_precision_setter(backend, operation, value)


WAYS = {
    "nothing": lambda: None,
    "old medium": old_interface("medium"),
    "old high": old_interface("high"),
    "new matmul": new_interface("mkldnn", "matmul", "bf16"),
    "new conv": new_interface("mkldnn", "conv", "bf16"),
    "new backend": new_interface("mkldnn", "all", "bf16"),
    "new everything": new_interface("generic", "all", "tf32"),
    "new cuda": new_interface("cuda", "matmul", "tf32"),
    "both": lambda: (
        torch.set_float32_matmul_precision("medium"),
        new_interface("mkldnn", "matmul", "tf32")(),
    ),
}
"""The ways in which a user may lower the precision of float32 products."""


@pytest.fixture(autouse=True)
def _default_settings():
    yield
    torch.set_float32_matmul_precision("highest")
    for name in (*ABOVE, *PRODUCTS["cpu"], ("cuda", "matmul")):
        torch._C._set_fp32_precision_setter(*name, "none")
    torch._C._set_fp32_precision_setter("cuda", "conv", "tf32")


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("autocast", [False, True])
def test_float32_products_are_full_inside_and_every_setting_comes_back(way, device, autocast):
    WAYS[way]()
    with torch.autocast("cpu", dtype=torch.bfloat16) if autocast else contextlib.nullcontext():
        before = settings()
        with exact(torch.device(device)):
            assert all(
                torch._C._get_fp32_precision_getter(*name) in FULL for name in PRODUCTS[device]
            )
            assert not torch.is_grad_enabled()
            assert device != "cpu" or not torch.is_autocast_enabled("cpu")
        assert settings() == before
        with pytest.raises(KeyError), exact(torch.device(device)):
            raise KeyError
        assert settings() == before


@pytest.mark.parametrize("operation", ["matmul", "conv"])
def test_a_setting_that_follows_another_follows_it_again(operation):
    torch._C._set_fp32_precision_setter("generic", "all", "tf32")
    with exact(torch.device("cpu")):
        pass
    torch._C._set_fp32_precision_setter("generic", "all", "ieee")
    assert torch._C._get_fp32_precision_getter("mkldnn", operation) == "ieee"


OPERATIONS = {
    torch.ops.aten.mm: "matmul",
    torch.ops.aten.bmm: "matmul",
    torch.ops.aten.mv: "matmul",
    torch.ops.aten.addmm: "matmul",
    torch.ops.aten.addmm_: "matmul",
    torch.ops.aten.addmv_: "matmul",
    torch.ops.aten.convolution: "conv",
    torch.ops.aten.convolution_backward: "conv",
}


class EagerProcessor(TorchDispatchMode):
    """A processor that computes float32 products in bfloat16 wherever the settings allow it; oneDNN
    does so with AMX.
    """

    def __init__(self):
        super().__init__()
        self.rounded = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        operation = OPERATIONS.get(func.overloadpacket)
        if operation and torch._C._get_fp32_precision_getter("mkldnn", operation) not in FULL:
            self.rounded += 1
            kept = (
                1
                if func.overloadpacket
                in (torch.ops.aten.addmm, torch.ops.aten.addmm_, torch.ops.aten.addmv_)
                else 0
            )
            args = (*args[:kept], *(self.round(value) for value in args[kept:]))
        return func(*args, **(kwargs or {}))

    @staticmethod
    def round(value):
        whole = isinstance(value, torch.Tensor) and value.dtype == torch.float32
        return value.to(torch.bfloat16).float() if whole else value


class Layers(nn.Module):
    """Layers whose norms and sums are products: a sequence's linear layer, convolutions and one
    position's linear layer.
    """

    def __init__(self):
        super().__init__()
        self.mix, self.conv = nn.Linear(16, 24, bias=False), nn.Conv1d(24, 8, 3, bias=False)
        self.head = nn.Linear(8, 5, bias=False)

    def forward(self, x):
        return self.head(self.conv(torch.tanh(self.mix(x)).transpose(1, 2)).mean(2))


def losses(model, batch):
    return F.cross_entropy(model(batch[0]).float(), batch[1], reduction="none")


def shares(kernels, *, rows=24, mode="auto"):
    """Return the norm of what each row of a batch alone adds to the clipped sum, over the bound."""
    torch.manual_seed(0)
    model, batch = Layers(), (torch.randn(rows, 12, 16) * 3, torch.randint(0, 5, (rows,)))
    found = []
    with Engine(model, losses, Flat(max_grad_norm=BOUND), kernels=kernels, mode=mode) as engine:
        for i in range(rows):
            sums = engine.zeros()
            engine.accumulate(batch, sums, bounds=engine.bounds(), mask=torch.arange(rows) == i)
            found.append(
                sum(float(total.double().square().sum()) for total in sums.values()) ** 0.5 / BOUND
            )
    return found


KERNELS = {
    "ghost": {"linear": "ghost", "conv": "ghost"},
    "pixel": {"linear": "ghost", "conv": "pixel"},
    "formed": {"linear": "dense", "conv": "grouped"},
    "unfolded": {"linear": "dense", "conv": "unfolded"},
}


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("mode", ["auto", "functional"])
def test_a_row_stays_within_the_bound_under_autocast(kernels, mode):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = shares(KERNELS[kernels], mode=mode)
    assert 0.999 < max(found) <= 1 + SLACK


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("way", ["old medium", "new matmul", "new conv", "new backend", "both"])
def test_a_row_stays_within_the_bound_at_any_precision_that_the_user_sets(kernels, way):
    WAYS[way]()
    with EagerProcessor() as processor:
        found = shares(KERNELS[kernels])
    assert processor.rounded, "the model itself is to keep the user's precision"
    assert 0.999 < max(found) <= 1 + SLACK
