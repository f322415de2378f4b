"""Inverting a class through a generator: only inputs that look like images are searched.

x = G(w) with w = argmax ln p_c(G(w)) - |w|^2 / 2, the most probable code under a normal prior. The
idea is that of Hitaj, Ateniese and Perez-Cruz (2017), whose attacker takes part in federated
training and trains G against the model as it changes. Here the model stands still and is G's judge:
G learns to draw public or made-up images such that the model answers as it does to the originals.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dppipe.audit.attacks.inversion.class_inversion import Inverted, confidences_of
from dppipe.audit.attacks.predictor import Predictor, log_probabilities
from dppipe.class_path import describe_failure, import_class
from dppipe.errors import SpecError, UsageError

if TYPE_CHECKING:
    from dppipe.audit.attacks.box import Box

CODE = 16
"""The numbers of a code."""
TRAINING_STEPS = 1200
SEARCH_STEPS = 300
_HIDDEN = 128
_BATCH = 64
_RATE = 2e-3
_SEARCH_RATE = 0.05
_JUDGEMENT = 0.1
"""The weight of the model's judgement beside the squared error of the drawing."""


class Generator(nn.Module):
    """A small network that draws inputs `[n, *shape]` from codes `[n, 16]`."""

    latent = CODE

    def __init__(self, shape: tuple[int, ...], box: Box | None) -> None:
        super().__init__()
        self.shape = shape
        self.box = box
        self.layers = nn.Sequential(
            nn.Linear(CODE, _HIDDEN), nn.ReLU(), nn.Linear(_HIDDEN, math.prod(shape))
        )

    def forward(self, codes: Tensor) -> Tensor:  # [n, 16] -> [n, *shape]
        """Draw one input for each code."""
        drawn: Tensor = self.layers(codes).reshape(len(codes), *self.shape)
        if self.box is None:
            return drawn
        return self.box.low + self.box.span * drawn.sigmoid()


def train_generator(
    model: Predictor,
    images: Tensor,  # [n, *shape]
    *,
    box: Box | None,
    seed: int,
) -> Generator:
    """Train a generator to draw these images, with the frozen model as its judge.

    It is the second half of an autoencoder whose codes are held close to standard normal ones.
    """
    shape = tuple(images.shape[1:])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        encoder = nn.Sequential(
            nn.Flatten(), nn.Linear(math.prod(shape), _HIDDEN), nn.ReLU(), nn.Linear(_HIDDEN, CODE)
        )
        generator = Generator(shape, box)
        optimizer = torch.optim.Adam([*encoder.parameters(), *generator.parameters()], lr=_RATE)
        for _ in range(TRAINING_STEPS):
            batch = images[torch.randint(len(images), (_BATCH,))]
            codes = encoder(batch)
            drawn = generator(codes + 0.1 * torch.randn_like(codes))
            loss = F.mse_loss(drawn, batch) + _JUDGEMENT * _disagreement(model, drawn, batch)
            loss = loss + 0.01 * (codes.mean(0).square() + (codes.var(0) - 1).square()).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    for parameter in generator.parameters():
        parameter.requires_grad_(False)
    return generator


def invert_by_generator(
    model: Predictor,
    generator: nn.Module,
    classes: tuple[int, ...],
    *,
    seed: int,
) -> Inverted:
    """Return the drawing of the most probable code of each class."""
    size = cast(int, generator.latent)
    start = torch.Generator().manual_seed(seed)
    codes = (0.1 * torch.randn(len(classes), size, generator=start)).requires_grad_()
    optimizer = torch.optim.Adam([codes], lr=_SEARCH_RATE)
    rows = torch.arange(len(classes))
    for _ in range(SEARCH_STEPS):
        logs = log_probabilities(model(generator(codes)), task=model.task)
        cost = codes.square().sum() / 2 - logs[rows, list(classes)].sum()
        (codes.grad,) = torch.autograd.grad(cost, [codes])
        optimizer.step()
    with torch.no_grad():
        records = generator(codes)
    return Inverted(classes, records, confidences_of(model, records, classes))


def generator_of_class(class_path: str, shape: tuple[int, ...]) -> nn.Module:
    """Build a user's own generator: a module with `latent`, the size of its codes."""
    try:
        found = import_class(class_path, block="--generator")
    except SpecError as error:
        raise UsageError(f"attack: --generator: {error.problems[0].message}") from error
    try:
        generator = found()
        codes = torch.zeros(2, int(generator.latent))
        with torch.no_grad():
            drawn = generator(codes)
        got = tuple(drawn.shape)
    except Exception as error:
        raise UsageError(
            "attack: --generator: expected a module without arguments, with an attribute `latent`, "
            f"that draws inputs from codes [n, latent], got "
            f"{describe_failure(error)} of {class_path}."
        ) from error
    if got != (2, *shape):
        raise UsageError(
            f"attack: --generator: expected drawings of shape {[2, *shape]} from two codes, got "
            f"{list(got)} of {class_path}."
        )
    module: nn.Module = generator.eval().requires_grad_(False)
    return module


def _disagreement(model: Predictor, drawn: Tensor, originals: Tensor) -> Tensor:
    """Return how differently the model answers to drawings and originals."""
    with torch.no_grad():
        wanted = log_probabilities(model(originals), task=model.task)
    found = log_probabilities(model(drawn), task=model.task)
    return F.kl_div(found, wanted, reduction="batchmean", log_target=True)
