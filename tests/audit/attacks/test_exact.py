"""The exact attack recovers any record from a linear first layer, whatever factor its gradient has."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from dppipe.audit.attacks.box import Box
from dppipe.audit.attacks.gradients.exact import find_ends, recover_exactly, recover_target
from dppipe.audit.attacks.gradients.inputs import raw_gradient
from dppipe.audit.attacks.gradients.knowledge import Knowledge
from dppipe.lightning.objectives import Objective


def knowledge(model, *, task="multiclass", outputs=3, shape=(5,), box=None) -> Knowledge:
    loss = Objective(task, outputs).per_sample_loss
    return Knowledge(model, loss, task, outputs, shape, box)


def network(outputs=3, *, inputs=5, seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Flatten(), nn.Linear(inputs, 8), nn.Tanh(), nn.Linear(8, outputs))


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.floats(-20, 20, width=32), min_size=5, max_size=5),
    st.integers(0, 2),
    st.integers(0, 1000),
    st.floats(1e-3, 1e3),
)
def test_any_single_record_is_recovered_whatever_the_factor(values, label, seed, factor):
    known = knowledge(network(seed=seed))
    record = torch.tensor([values])
    target = torch.tensor([label])
    gradient = raw_gradient(known, (record, target))
    seen = {name: factor * part for name, part in gradient.items()}
    ends = find_ends(known, target=target)
    found = recover_exactly(known, seen, ends)
    if found is None:  # every unit saturated: no bias has a gradient
        assert not gradient[ends.first_bias].any()
        return
    row = gradient[ends.first_bias].abs().max()
    if row < 1e-20:  # close to where numbers underflow
        return
    torch.testing.assert_close(found.record, record[0], rtol=1e-4, atol=1e-4)
    assert int(found.target) == label


@settings(deadline=None, max_examples=30)
@given(st.booleans(), st.integers(0, 1000))
def test_the_target_of_two_classes_is_the_sign_of_the_last_bias(is_one, seed):
    known = knowledge(network(1, seed=seed), task="binary", outputs=1)
    target = torch.tensor([float(is_one)])
    gradient = raw_gradient(known, (torch.randn(1, 5), target))
    found = recover_target(known, gradient, find_ends(known, target=target))
    assert float(found) == float(is_one)


def test_a_regression_has_a_record_and_no_target():
    known = knowledge(network(2), task="regression", outputs=2)
    record, target = torch.randn(1, 5), torch.randn(1, 2)
    found = recover_exactly(
        known, raw_gradient(known, (record, target)), find_ends(known, target=target)
    )
    torch.testing.assert_close(found.record, record[0], rtol=1e-4, atol=1e-5)
    assert found.target is None


def test_images_are_recovered_in_their_shape_and_held_to_their_box():
    known = knowledge(network(inputs=12), shape=(1, 3, 4), box=Box(0.0, 1.0))
    record = torch.rand(1, 1, 3, 4)
    gradient = raw_gradient(known, (record, torch.tensor([1])))
    ends = find_ends(known, target=torch.tensor([1]))
    torch.testing.assert_close(recover_exactly(known, gradient, ends).record, record[0])
    outside = {name: part.clone() for name, part in gradient.items()}
    outside[ends.first_weight] *= -1
    assert float(recover_exactly(known, outside, ends).record.min()) == 0.0


@pytest.mark.parametrize(
    "first",
    [nn.Linear(5, 8, bias=False), nn.Sequential(nn.LayerNorm(5), nn.Linear(5, 8))],
    ids=["no bias", "another layer before it"],
)
def test_a_model_without_a_first_linear_layer_with_bias_is_not_attacked_exactly(first):
    torch.manual_seed(0)
    known = knowledge(nn.Sequential(first, nn.Tanh(), nn.Linear(8, 3)))
    target = torch.tensor([2])
    ends = find_ends(known, target=target)
    gradient = raw_gradient(known, (torch.randn(1, 5), target))
    assert recover_exactly(known, gradient, ends) is None
    assert int(recover_target(known, gradient, ends)) == 2


def test_a_frozen_first_layer_is_not_attacked_exactly():
    model = network()
    model[1].bias.requires_grad_(False)
    known = knowledge(model)
    ends = find_ends(known, target=torch.tensor([0]))
    assert (ends.first_weight, ends.first_bias) == (None, None)


def test_a_model_whose_last_layer_is_not_its_answer_shows_no_target():
    torch.manual_seed(0)
    known = knowledge(nn.Sequential(nn.Linear(5, 3), nn.Softplus()))
    assert find_ends(known, target=torch.tensor([0])).last_bias is None


def test_finding_the_ends_leaves_no_hook_on_the_model():
    model = network()
    find_ends(knowledge(model), target=torch.tensor([0]))
    assert not any(layer._forward_hooks for layer in model.modules())
