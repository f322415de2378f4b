"""What every model kind keeps, over all that the registry finds: a new kind is tested by being there."""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from dppipe.models.base import Model
from dppipe.spec.kinds.registry import Registry

SHAPES: dict[str, Sequence[int]] = {"cnn": (1, 28, 28)}
"""Inputs of the kinds that don't take any shape."""

USER_MODULE = """
from torch import nn

class Net(nn.Module):
    def __init__(self, input_shape, outputs, width):
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(input_shape[0] * input_shape[1], width), nn.Linear(width, outputs))

    def forward(self, x):
        return self.body(x)
"""

EXAMPLES: dict[str, dict[str, Any]] = {
    "class_path": {"class_path": "contract_nets.Net", "init_args": {"width": 5}}
}
"""Options of the kinds that can't do without any."""


@pytest.fixture(params=Registry().kinds("model"))
def model(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Model:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "contract_nets.py").write_text(USER_MODULE)
    made = Registry().load("model", request.param).from_data(EXAMPLES.get(request.param, {}))
    assert isinstance(made, Model)
    return made


def shape(model: Model) -> Sequence[int]:
    return SHAPES.get(model.kind, (4, 3))


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("records", [0, 1, 4])
def test_outputs_have_one_row_for_each_example(model: Model, outputs: int, records: int) -> None:
    module = model.build(shape(model), outputs)
    assert module(torch.randn(records, *shape(model))).shape == (records, outputs)


def test_no_example_changes_the_outputs_of_another(model: Model) -> None:
    module = model.build(shape(model), 3).eval()
    inputs = torch.randn(4, *shape(model))
    others = torch.cat([inputs[:1], 100 * torch.randn(3, *shape(model))])
    torch.testing.assert_close(module(inputs)[0], module(others)[0])
    assert not any(isinstance(layer, nn.modules.batchnorm._BatchNorm) for layer in module.modules())


def test_every_parameter_is_trained(model: Model) -> None:
    module = model.build(shape(model), 3)
    module(torch.randn(4, *shape(model))).square().sum().backward()
    parameters = dict(module.named_parameters())
    assert parameters
    assert all(
        parameter.requires_grad and parameter.grad is not None for parameter in parameters.values()
    )


def test_weights_come_from_the_seed_alone(model: Model) -> None:
    def weights(seed: int) -> torch.Tensor:
        torch.manual_seed(seed)
        return nn.utils.parameters_to_vector(model.build(shape(model), 3).parameters())

    assert torch.equal(weights(1), weights(1))
    assert not torch.equal(weights(1), weights(2))


def test_a_state_dict_fits_a_fresh_build(model: Model) -> None:
    module, fresh = model.build(shape(model), 3).eval(), model.build(shape(model), 3).eval()
    fresh.load_state_dict(copy.deepcopy(module.state_dict()))
    inputs = torch.randn(2, *shape(model))
    assert torch.equal(module(inputs), fresh(inputs))


def test_options_survive_being_written_and_read(model: Model) -> None:
    written = json.loads(json.dumps(model.to_data()))
    assert written.pop("kind") == model.kind
    assert type(model).from_data(written) == model
    assert all(field.description for field in type(model).model_fields.values())
