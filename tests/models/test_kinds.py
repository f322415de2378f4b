"""Each model kind: its layers, its size, and how what doesn't fit is named."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from torch import nn

from dppipe.errors import SpecError, UsageError
from dppipe.models import ClassPathModel, Cnn, Logistic, Mlp

MODULE = """
from torch import nn

class Plain(nn.Linear):
    def __init__(self, width=3):
        super().__init__(width, 2)

class Asks(nn.Module):
    def __init__(self, outputs, *, input_shape, scale=1):
        super().__init__()
        self.asked = (input_shape, outputs, scale)

class Swallows(nn.Module):
    def __init__(self, **kwargs):
        super().__init__()
        self.asked = kwargs

class Fails(nn.Module):
    def __init__(self):
        raise RuntimeError("no layers")

class NoModule:
    pass
"""


@pytest.fixture
def _module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "own_nets.py").write_text(MODULE)
    yield
    sys.modules.pop("own_nets", None)


def size(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def test_logistic_is_one_linear_layer() -> None:
    assert size(Logistic().build((1, 8, 8), 10)) == 650
    assert size(Logistic(bias=False).build((1, 8, 8), 10)) == 640


def test_an_mlp_has_the_stated_layers() -> None:
    module = Mlp.from_data({"hidden": [5, 4], "activation": "relu", "dropout": 0.5}).build(
        (3, 2), 2
    )
    expected = [
        nn.Flatten,
        nn.Linear,
        nn.ReLU,
        nn.Dropout,
        nn.Linear,
        nn.ReLU,
        nn.Dropout,
        nn.Linear,
    ]
    assert [type(layer) for layer in module.children()] == expected
    assert size(module) == 6 * 5 + 5 + 5 * 4 + 4 + 4 * 2 + 2
    assert size(Mlp.from_data({"hidden": []}).build((3, 2), 2)) == 14


@pytest.mark.parametrize("activation", ["elu", "gelu", "relu", "silu", "tanh"])
def test_every_activation_builds(activation: str) -> None:
    assert torch.isfinite(
        Mlp.from_data({"activation": activation}).build((4,), 1)(torch.randn(2, 4))
    ).all()


@pytest.mark.parametrize(
    "options",
    [{"hidden": [0]}, {"hidden": [1.5]}, {"dropout": 1}, {"activation": "sine"}, {"layers": 2}],
)
def test_wrong_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Mlp.from_data(options)


def test_the_cnn_is_the_published_one() -> None:
    """Two convolutions of 1040 and 8224 parameters and two linear layers of 16416 and 330, counted by hand."""
    module = Cnn().build((1, 28, 28), 10)
    assert size(module) == 26_010
    assert sum(isinstance(layer, nn.Tanh) for layer in module.modules()) == 3


@settings(max_examples=25, deadline=None)
@given(height=st.integers(16, 40), width=st.integers(16, 40), channels=st.integers(1, 3))
def test_the_cnn_builds_for_every_size_it_accepts(height: int, width: int, channels: int) -> None:
    module = Cnn.from_data({"channels": [2, 3], "hidden": 4}).build((channels, height, width), 2)
    assert module(torch.zeros(1, channels, height, width)).shape == (1, 2)


@pytest.mark.parametrize("shape", [(1, 15, 28), (1, 28, 15), (1, 8, 8), (28, 28), (784,)])
def test_the_cnn_refuses_what_is_too_small(shape: tuple[int, ...]) -> None:
    with pytest.raises(
        SpecError,
        match=r"model\.kind: cnn: expected inputs of channels x height x width, at least 16 high",
    ):
        Cnn().build(shape, 10)


@pytest.mark.usefixtures("_module")
def test_a_users_class_gets_what_it_asks_for() -> None:
    plain = ClassPathModel.from_data(
        {"class_path": "own_nets.Plain", "init_args": {"width": 5}}
    ).build((4,), 3)
    assert plain.in_features == 5
    asks = ClassPathModel.from_data({"class_path": "own_nets.Asks"}).build([4, 2], 3)
    assert asks.asked == ((4, 2), 3, 1)
    overridden = ClassPathModel.from_data(
        {"class_path": "own_nets.Asks", "init_args": {"outputs": 7}}
    ).build((4,), 3)
    assert overridden.asked == ((4,), 7, 1)
    swallows = ClassPathModel.from_data(
        {"class_path": "own_nets.Swallows", "init_args": {"a": 1}}
    ).build((4,), 3)
    assert swallows.asked == {"a": 1}
    assert isinstance(
        ClassPathModel(
            class_path="torch.nn.Linear", init_args={"in_features": 4, "out_features": 2}
        ).build((4,), 2),
        nn.Linear,
    )


@pytest.mark.usefixtures("_module")
@pytest.mark.parametrize(
    ("name", "init_args", "message"),
    [
        (
            "own_nets.NoModule",
            {},
            r"model\.class_path: expected a subclass of torch\.nn\.Module or LightningModule",
        ),
        (
            "own_nets.Plain",
            {"depth": 2},
            r"model\.init_args: expected the arguments of Plain\(width=3\), got others: .*'depth'",
        ),
        (
            "own_nets.Fails",
            {},
            r"expected own_nets\.Fails to build from model\.init_args, got RuntimeError at own_nets\.py:\d+",
        ),
        (
            "no_such_nets.Net",
            {},
            r"model\.class_path: expected a class that can be imported, got 'no_such_nets\.Net'",
        ),
        ("own_nets;Net", {}, r"model\.class_path: expected package\.module\.Class"),
    ],
)
def test_faults_of_a_users_class_are_named(
    name: str, init_args: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        ClassPathModel.from_data({"class_path": name, "init_args": init_args}).build((4,), 2)
