"""tab_mlp: embeddings of codes beside numbers, with gradients by the engine's rules."""

from __future__ import annotations

import pytest
import torch

from dppipe.clipping import Flat
from dppipe.engine import Engine, clipped_sum
from dppipe.errors import SpecError
from dppipe.input_layout import InputLayout
from dppipe.lightning.isolation.rehearsal import rehearse
from dppipe.lightning.objectives import Objective
from dppipe.models import TabMlp

LAYOUT = InputLayout((5,), {1: 3, 4: 40})


def rows(count=12):
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(count, 5, generator=generator)
    inputs[:, 1] = torch.arange(count) % 4
    inputs[:, 4] = torch.arange(count) * 7 % 41
    return inputs, torch.arange(count) % 3


def test_the_width_of_embeddings_follows_from_the_number_of_categories():
    network = TabMlp(embedding=16, hidden=(8,)).build_for(LAYOUT, 3)
    shapes = {name: tuple(value.shape) for name, value in network.named_parameters()}
    assert shapes["0.tables.0.weight"] == (4, 2)
    assert shapes["0.tables.1.weight"] == (41, 16)
    assert shapes["1.1.weight"] == (8, 3 + 2 + 16)


def test_every_input_reaches_the_output_and_codes_are_looked_up():
    torch.manual_seed(0)
    network = TabMlp(hidden=()).build_for(LAYOUT, 1)
    table = network[0].tables[1].weight
    inputs, _ = rows()
    expected = torch.cat(
        [
            inputs[:, [0, 2, 3]],
            network[0].tables[0].weight[inputs[:, 1].long()],
            table[inputs[:, 4].long()],
        ],
        1,
    )
    linear = network[1][1]
    assert torch.allclose(network(inputs), expected @ linear.weight.T + linear.bias, atol=1e-6)


def test_gradients_of_tables_are_those_of_single_examples_without_a_fallback():
    torch.manual_seed(0)
    network = TabMlp(hidden=(8,)).build_for(LAYOUT, 3)
    loss = Objective("multiclass", 3).per_sample_loss
    batch = rows()
    with Engine(network, loss, Flat(max_grad_norm=0.1)) as engine:
        report = rehearse(engine, batch)
    assert not report.row_by_row
    sums = clipped_sum(network, loss, batch, Flat(max_grad_norm=0.1)).sums
    expected = {
        name: torch.zeros_like(p, dtype=torch.float64) for name, p in network.named_parameters()
    }
    for row in range(12):
        one = (batch[0][row : row + 1], batch[1][row : row + 1])
        parameters = list(network.parameters())
        alone = torch.autograd.grad(loss(network, one).sum(), parameters)
        norm = torch.sqrt(sum(g.double().square().sum() for g in alone))
        factor = min(1.0, 0.1 / float(norm))
        for name, gradient in zip(expected, alone, strict=True):
            expected[name] += factor * gradient.double()
    for name, value in expected.items():
        assert torch.allclose(sums[name].double(), value, rtol=1e-4, atol=1e-6), name


def test_without_codes_it_is_an_mlp():
    assert TabMlp(hidden=(8,)).build((5,), 2)(torch.randn(3, 5)).shape == (3, 2)


@pytest.mark.parametrize("layout", [InputLayout((1, 8, 8)), InputLayout((9,), vocabulary=30)])
def test_other_inputs_are_refused(layout):
    with pytest.raises(SpecError, match=r"expected the columns of a table as inputs of tab_mlp"):
        TabMlp().build_for(layout, 2)
