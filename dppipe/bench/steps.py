"""The steps that are compared: ordinary training, dppipe's private step, and Opacus in each mode.

A step is forward, backward, per-sample clipping, noise and the optimizer's update, always on the
same batch.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import torch
from torch import nn

from dppipe.bench.workloads import Workload
from dppipe.engine import Engine
from dppipe.engine.contracts import Clips
from dppipe.learners.sgd.buffers import zeros_of
from dppipe.randomness.gaussian import GaussianStream
from dppipe.randomness.streams import stream_key

Step = Callable[[], None]
RATE = 1e-4
"""A learning rate that leaves the weights about where they are."""


def plain_step(workload: Workload, model: nn.Module, batch: Any) -> Step:
    """Make the step of ordinary training."""
    optimizer = _optimizer(model)

    def step() -> None:
        optimizer.zero_grad()
        workload.per_sample_loss(model, batch).mean().backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return step


def private_step(workload: Workload, model: nn.Module, batch: Any, *, clipper: Clips) -> Step:
    """Make dppipe's private step, as a run takes it.

    Clipped sums go onto one flat buffer, then noise is added, then one division follows.
    """
    optimizer = _optimizer(model)
    engine = Engine(model, workload.per_sample_loss, clipper)
    noise = GaussianStream(stream_key("noise"))
    bounds = engine.bounds()
    rows = len(batch[0])

    def step() -> None:
        buffers = zeros_of(engine.parameters)
        engine.accumulate(batch, buffers.sums, bounds=bounds)
        noise.add_(buffers.gradient, std=1.0, over=rows)
        for name, parameter in engine.parameters.items():
            parameter.grad = buffers.sums[name]
        optimizer.step()
        for parameter in engine.parameters.values():
            parameter.grad = None

    return step


OPACUS_MODES = ("hooks", "functorch", "ew", "ghost")


def opacus_installed() -> bool:
    """Return whether Opacus is installed."""
    return find_spec("opacus") is not None


def opacus_step(workload: Workload, model: nn.Module, batch: Any, *, mode: str) -> Step:
    """Make Opacus's step in one of its modes."""
    from opacus.grad_sample import get_gsm_class
    from opacus.optimizers import DPOptimizer
    from opacus.optimizers.optimizer_fast_gradient_clipping import DPOptimizerFastGradientClipping
    from opacus.utils.fast_gradient_clipping_utils import DPTensorFastGradientClipping

    rows = len(batch[0])
    options: dict[str, Any] = {}
    if mode == "ghost":
        options = {"max_grad_norm": 1.0, "use_ghost_clipping": True}
    wrapped = get_gsm_class(mode)(model, batch_first=True, loss_reduction="mean", **options)
    kind = DPOptimizerFastGradientClipping if mode == "ghost" else DPOptimizer
    optimizer = kind(
        _optimizer(model), noise_multiplier=1.0, max_grad_norm=1.0, expected_batch_size=rows
    )

    def step() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            take()

    def take() -> None:
        optimizer.zero_grad()
        losses = workload.per_sample_loss(wrapped, batch)
        if mode == "ghost":
            DPTensorFastGradientClipping(wrapped, optimizer, losses, "mean").backward()
        else:
            losses.mean().backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return step


def make_step(
    contender: str, workload: Workload, model: nn.Module, batch: Any, *, clipper: Clips
) -> Step:
    """Make a contender's step: `plain`, `dppipe`, or `opacus` and a mode."""
    if contender.startswith("opacus "):
        return opacus_step(workload, model, batch, mode=contender.removeprefix("opacus "))
    if contender == "dppipe":
        return private_step(workload, model, batch, clipper=clipper)
    return plain_step(workload, model, batch)


def _optimizer(model: nn.Module) -> torch.optim.SGD:
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return torch.optim.SGD(trained, lr=RATE)
