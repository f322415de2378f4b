"""One shape, one arithmetic: a noise kind and a learning-rate kind of one name agree exactly."""

from __future__ import annotations

from typing import Any

import pytest

from dppipe.spec.kinds.registry import Registry

SHAPES: list[tuple[str, dict[str, Any]]] = [
    ("constant", {}),
    ("cosine", {"end": 0.3}),
    ("exponential", {"end": 0.3}),
    ("linear", {"end": 0.3}),
    ("piecewise", {"values": [1.0, 2.0, 0.25], "boundaries": [0.1, 0.7]}),
]


@pytest.mark.parametrize(("kind", "options"), SHAPES, ids=[kind for kind, _ in SHAPES])
def test_a_shape_is_the_same_for_noise_and_for_the_learning_rate(
    kind: str, options: dict[str, Any]
) -> None:
    noise: Any = Registry().load("noise", kind).from_data(options)
    rate: Any = Registry().load("schedule", kind).from_data(options)
    for index in range(1001):
        assert noise.multiplier(index / 1000) == rate.factor(index / 1000)


def test_every_shape_that_both_families_have_is_compared() -> None:
    shared = set(Registry().kinds("noise")) & set(Registry().kinds("schedule"))
    assert shared == {kind for kind, _ in SHAPES}
