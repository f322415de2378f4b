"""MSE, PSNR and SSIM against values worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch

from dppipe.audit.attacks.measures import (
    mean_squared_error,
    nearest,
    peak_signal_to_noise,
    structural_similarity,
)
from dppipe.audit.attacks.variation import total_variations


def test_errors_by_hand():
    assert mean_squared_error(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 4.0])) == 2.0
    assert peak_signal_to_noise(0.01, span=1.0) == pytest.approx(20.0)
    assert peak_signal_to_noise(0.01, span=10.0) == pytest.approx(40.0)
    assert peak_signal_to_noise(0.0, span=1.0) == math.inf


def test_similarity_of_two_by_two_pixels_by_hand():
    one = torch.tensor([[[0.0, 1.0], [1.0, 0.0]]])
    other = torch.tensor([[[0.5, 1.0], [0.5, 0.0]]])
    # Both means are 1/2; variances 1/3 and 1/6, covariance 1/6, with 3 in the denominator.
    first, second = 0.01**2, 0.03**2
    by_hand = (0.5 + first) * (2 / 6 + second) / ((0.5 + first) * (1 / 3 + 1 / 6 + second))
    assert structural_similarity(one, other, span=1.0) == pytest.approx(by_hand, rel=1e-12)


def test_similarity_is_one_for_equal_images_and_negative_for_opposite_ones():
    image = torch.rand(1, 8, 8, generator=torch.Generator().manual_seed(0))
    assert structural_similarity(image, image, span=1.0) == pytest.approx(1.0)
    assert structural_similarity(image, 1 - image, span=1.0) < 0


def test_nearest_and_variation():
    others = torch.tensor([[0.0, 0.0], [1.0, 1.0], [0.9, 0.0]])
    assert nearest(torch.tensor([0.8, 0.1]), others) == 2
    step = torch.tensor([[[[0.0, 1.0], [0.0, 1.0]]]])
    assert total_variations(torch.cat([step, 2 * step])).tolist() == [1.0, 2.0]
