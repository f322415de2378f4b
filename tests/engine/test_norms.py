"""Norms of long rows are right in float32."""

from __future__ import annotations

import pytest
import torch

from dppipe.engine.gradients.forms import Outer
from dppipe.engine.gradients.norms import row_squares


@pytest.mark.parametrize("size", [1, 7, 1023, 1024, 1025, 4096, 100_003, 2_600_000])
def test_float32_norms_are_not_under_estimated(size):
    rows = torch.randn(2, size, generator=torch.Generator().manual_seed(size))
    exact = rows.double().square().sum(1).sqrt()
    signed = (row_squares(rows).double().sqrt() - exact) / exact
    assert signed.abs().max() < 5e-7


def test_rows_of_any_shape_and_stride_count():
    values = torch.randn(3, 50, 60).transpose(1, 2)
    assert torch.allclose(
        row_squares(values), values.double().flatten(1).square().sum(1), rtol=1e-5
    )
    assert row_squares(torch.zeros(4, 0, 3)).tolist() == [0, 0, 0, 0]


def test_half_precision_is_widened():
    values = torch.full((2, 5000), 3.0, dtype=torch.bfloat16)
    assert row_squares(values).dtype == torch.float64
    assert row_squares(values).tolist() == pytest.approx([45000.0, 45000.0], rel=1e-6)


@pytest.mark.parametrize("spread", [1.0, 1e-2, 1e-4, 0.0])
@pytest.mark.parametrize(
    ("positions", "inputs", "outputs"), [(2, 16, 16), (16, 64, 32), (128, 128, 256)]
)
def test_ghost_norms_of_cancelling_positions_are_not_under_estimated(
    spread, positions, inputs, outputs
):
    """Inputs that hardly differ and output gradients that add up to nothing: the gradient is what
    is left of large parts.
    """
    torch.manual_seed(positions)
    given = torch.randn(8, 1, inputs) + spread * torch.randn(8, positions, inputs)
    gradients = torch.randn(8, positions, outputs)
    gradients = gradients - gradients.mean(1, keepdim=True)
    exact = torch.bmm(gradients.double().transpose(1, 2), given.double()).flatten(1).norm(dim=1)
    assert (Outer(given, gradients).squares.double().sqrt() >= exact * (1 - 1e-6)).all()
