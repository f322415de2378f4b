"""Gradient inversion on a digit: a 64-32-10 network, the first digit of scikit-learn's, a fixed seed."""

from __future__ import annotations

import torch
from sklearn.datasets import load_digits
from torch import nn

from dppipe.audit.attacks.box import Box
from dppipe.audit.attacks.gradients.exact import find_ends, recover_exactly
from dppipe.audit.attacks.gradients.inputs import raw_gradient
from dppipe.audit.attacks.gradients.knowledge import Knowledge
from dppipe.audit.attacks.measures import mean_squared_error
from dppipe.clipping import Flat
from dppipe.engine import clipped_sum
from dppipe.lightning.objectives import Objective


def test_exact_recovery_raw_and_clipped_and_worse_than_the_mean_image_at_noise():
    digits = load_digits()
    images = torch.tensor(digits.data / 16, dtype=torch.float32)
    record, label = images[:1], torch.tensor(digits.target[:1])
    mean_mse = mean_squared_error(images.mean(0), record[0])
    assert round(mean_mse, 4) == 0.0606
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 32), nn.Sigmoid(), nn.Linear(32, 10))
    loss = Objective("multiclass", 10).per_sample_loss
    known = Knowledge(model, loss, "multiclass", 10, (64,), Box(0.0, 1.0))
    raw = raw_gradient(known, (record, label))
    clipped = clipped_sum(model, loss, (record, label), Flat(max_grad_norm=1.0)).sums
    ends = find_ends(known, target=label)
    for seen in (raw, clipped):
        found = recover_exactly(known, seen, ends)
        assert mean_squared_error(found.record, record[0]) < 1e-12
        assert int(found.target) == int(label)
    generator = torch.Generator().manual_seed(1)
    for multiplier in (0.01, 0.1, 1.0):
        noisy = {
            name: part + multiplier * torch.randn(part.shape, generator=generator)
            for name, part in clipped.items()
        }
        found = recover_exactly(known, noisy, ends)
        assert mean_squared_error(found.record, record[0]) > mean_mse
