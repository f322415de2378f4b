"""Models: they build, they train, and no example reaches another's output.

A layer that mixes examples voids the guarantee, and the engine refuses it before anything is spent;
here it is named earlier.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from dppipe.clipping.flat import Flat
from dppipe.engine import clipped_sum
from dppipe.input_layout import InputLayout
from dppipe.models.base import Model
from dppipe.plugin_kit.checks.table import Fault, Remark, check_each

LAYOUTS = (
    InputLayout((4,)),
    InputLayout((6, 5)),
    InputLayout((1, 8, 8)),
    InputLayout((3, 16, 16)),
    InputLayout((1, 28, 28)),
    InputLayout((3, 32, 32)),
    InputLayout((5,), {1: 3, 4: 2}),
    InputLayout((7,), vocabulary=11),
)
"""Inputs to try: numbers, a sequence, images, numbers with codes, token ids."""
OUTPUTS = 3


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Let torch draw from this seed inside the block, and restore its generator afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def build(model: Model) -> tuple[nn.Module, Tensor]:
    """Build the model for the first layout that it takes, with inputs `[4, ...]`."""
    _, module, inputs = next(_working(model))
    return module, inputs


def inputs_of(layout: InputLayout, *, seed: int) -> Tensor:  # -> [4, ...]
    """Return made-up inputs of a layout: numbers from 0 to 1, with codes or token ids."""
    generator = torch.Generator().manual_seed(seed)
    if layout.vocabulary is not None:
        ids = torch.randint(1, layout.vocabulary, (4, *layout.shape), generator=generator)
        ids[1, 2:] = 0
        return ids
    inputs = torch.rand(4, *layout.shape, generator=generator)
    for place, categories in layout.category_counts.items():
        codes = torch.randint(categories + 1, (4,), generator=generator)
        inputs[:, place] = codes.to(inputs.dtype)
    return inputs


def exercise(model: Model) -> Any:
    """Build it twice and look at its outputs."""
    found = []
    for seed in (0, 1):
        with seeded(seed), torch.no_grad():
            module, inputs = build(model)
            found.append(module.eval()(inputs))
    return found


@check_each("model")
def several_shapes(model: Model) -> Remark:
    """It builds and runs forward and backward on several shapes."""
    taken = []
    for layout, module, inputs in _working(model):
        shape = layout.shape
        taken.append(layout)
        with seeded(0):
            module.train()(inputs).square().mean().backward()
        bad = [
            name
            for name, p in module.named_parameters()
            if p.grad is not None and not p.grad.isfinite().all()
        ]
        if bad:
            raise Fault(
                f"expected finite gradients for inputs of shape {shape}, got others at {bad[0]}."
            )
        unused = [
            name for name, p in module.named_parameters() if p.requires_grad and p.grad is None
        ]
        if unused:
            raise Fault(
                f"expected every trainable parameter to be used, got {unused[0]} unused for "
                f"shape {shape}. Drop it."
            )
    left = [layout.describe() for layout in LAYOUTS if layout not in taken]
    return f"doesn't take {', '.join(left)}" if left else None


@check_each("model")
def small_batches(model: Model) -> Remark:
    """It takes a batch of one and an empty one, and gives one output."""
    layout, module, inputs = next(_working(model))
    one = model.build_for(layout, 1)
    for made, outputs in ((module, OUTPUTS), (one, 1)):
        for rows in (0, 1):
            for mode in (True, False):
                with seeded(0):
                    shape = tuple(made.train(mode)(inputs[:rows]).shape)
                if shape != (rows, outputs):
                    raise Fault(f"expected outputs of shape {(rows, outputs)}, got {shape}.")
    return None


@check_each("model")
def something_to_train(model: Model) -> Remark:
    """It has parameters to train."""
    module, _ = build(model)
    frozen = [name for name, p in module.named_parameters() if not p.requires_grad]
    if len(frozen) == len(list(module.parameters())):
        raise Fault("expected a parameter to train, got none. Add a layer, or unfreeze one.")
    return f"frozen: {', '.join(frozen)}" if frozen else None


@check_each("model")
def no_mixing(model: Model) -> Remark:
    """No layer mixes examples."""
    layout, module, inputs = next(_working(model))
    for path, layer in module.named_modules():
        if isinstance(layer, nn.modules.batchnorm._BatchNorm) and not isinstance(
            layer, nn.modules.instancenorm._InstanceNorm
        ):
            raise Fault(
                f"expected no batch normalisation, got {type(layer).__name__} at "
                f"{path or 'the top'}. Use nn.GroupNorm."
            )
    others = torch.cat([inputs[:1], inputs_of(layout, seed=1)[1:]])
    for mode in (True, False):
        with seeded(0), torch.no_grad():
            first = module.train(mode)(inputs)[0]
        with seeded(0), torch.no_grad():
            second = module.train(mode)(others)[0]
        if not torch.allclose(first, second, rtol=1e-4, atol=1e-6):
            raise Fault(
                "expected an example's output to stay when the others change, got another "
                "one. Something mixes examples."
            )
    return None


@check_each("model")
def buffers_untouched(model: Model) -> Remark:
    """Nothing is remembered in a forward pass."""
    module, inputs = build(model)
    before = copy.deepcopy(dict(module.named_buffers()))
    with seeded(0), torch.no_grad():
        module.train()(inputs)
    moved = [
        name
        for name, value in module.named_buffers()
        if name not in before or not torch.equal(value, before[name])
    ]
    if moved:
        raise Fault(
            f"expected buffers as they were, got another {moved[0]}: it would keep private "
            "records. Don't track statistics."
        )
    return None


@check_each("model")
def weights_by_seed(model: Model) -> Remark:
    """Weights come from the seed alone, and fit a fresh build."""
    built = []
    for seed in (3, 3, 4):
        with seeded(seed):
            built.append(build(model)[0])
    first, second, other = (module.state_dict() for module in built)
    if first.keys() != second.keys():
        raise Fault(
            "expected the same names in every build, got others. Build the same layers "
            "from the same options."
        )
    moved = [name for name in first if not torch.equal(first[name], second[name])]
    if moved:
        raise Fault(
            f"expected the same weights from the same seed, got others at {moved[0]}. Draw "
            "them with torch alone."
        )
    drawn = any(not torch.equal(first[name], other[name]) for name in first)
    _, inputs = build(model)
    wanted = built[0].eval()(inputs)
    built[2].load_state_dict(copy.deepcopy(first))
    if not torch.equal(built[2].eval()(inputs), wanted):
        raise Fault("expected the same outputs with loaded weights, got others.")
    return None if drawn else "its first weights don't follow the seed"


@check_each("model")
def engine_agrees(model: Model) -> Remark:
    """The engine's gradients are those of one example at a time."""
    module, inputs = build(model)
    module.eval()
    found = clipped_sum(module, _loss, inputs, Flat(max_grad_norm=1e6)).sums
    parameters = dict(module.named_parameters())
    alone = [
        torch.autograd.grad(_loss(module, row[None]).sum(), list(parameters.values()))
        for row in inputs
    ]
    for name, gradients in zip(parameters, zip(*alone, strict=True), strict=True):
        if not torch.allclose(found[name], torch.stack(gradients).sum(0), rtol=1e-3, atol=1e-5):
            raise Fault(
                "expected the engine's sum to be that of single examples, got another at "
                f"{name}. Something mixes them."
            )
    return None


@check_each("model")
def other_places(model: Model) -> Remark:
    """It runs in float64, and on the meta device without looking at a value."""
    module, inputs = build(model)
    wide = inputs.double() if inputs.is_floating_point() else inputs
    module.double().eval()(wide)
    shape = tuple(module.to("meta").eval()(wide.to("meta")).shape)
    if shape != (len(inputs), OUTPUTS):
        raise Fault(
            f"expected outputs of shape {(len(inputs), OUTPUTS)} on the meta device, got {shape}."
        )
    return None


def _loss(module: nn.Module, inputs: Any) -> Tensor:  # -> [B]
    outputs: Tensor = module(inputs)
    return outputs.square().mean(1)


def _working(model: Model) -> Iterator[tuple[InputLayout, nn.Module, Tensor]]:
    """Yield each layout that the model takes; if it takes none, raise what the first one raised."""
    failures: list[Exception] = []
    for layout in LAYOUTS:
        inputs = inputs_of(layout, seed=0)
        shape = layout.shape
        try:
            module = model.build_for(layout, OUTPUTS)
            if not isinstance(module, nn.Module):
                raise Fault(
                    f"expected build() to give a torch.nn.Module, got {type(module).__name__}."
                )
            with seeded(0), torch.no_grad():
                got = module.eval()(inputs)
        except Fault:
            raise
        except Exception as error:
            failures.append(error)
            continue
        if not isinstance(got, Tensor) or tuple(got.shape) != (4, OUTPUTS):
            seen = tuple(got.shape) if isinstance(got, Tensor) else type(got).__name__
            raise Fault(
                f"expected outputs of shape {(4, OUTPUTS)} for inputs {(4, *shape)}, got {seen}."
            )
        yield layout, module, inputs
    if len(failures) == len(LAYOUTS):
        raise failures[0]
