"""Results that a change of structure must leave as they are."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pinned.runs import FILE, RUNS, results


@pytest.mark.parametrize("name", RUNS)
def test_a_pinned_run_gives_the_plan_charges_and_weights_that_it_gave(name: str) -> None:
    pinned = json.loads(FILE.read_text())[name]
    found = json.loads(json.dumps(results(name)))
    # A later version may plan more numbers; it changes none.
    plan = {key: found["plan"].get(key) for key in pinned["plan"]}
    assert without_epsilons(plan) == without_epsilons(pinned["plan"])
    assert epsilons(plan) == pytest.approx(epsilons(pinned["plan"]), rel=1e-9)
    for mine in found["charges"]:
        assert mine.pop("version") == 2
    mine, was = without_bounds(found["charges"]), without_bounds(pinned["charges"])
    assert without_epsilons(mine) == without_epsilons(was)
    assert epsilons(mine) == pytest.approx(epsilons(was), rel=1e-9)
    for mine, was in zip(found["charges"], pinned["charges"], strict=True):
        assert mine["max_grad_norm"] == pytest.approx(was["max_grad_norm"], rel=1e-6)
    assert list(found["weights"]) == list(pinned["weights"])
    for key, values in pinned["weights"].items():
        assert found["weights"][key] == pytest.approx(values, abs=1e-6, rel=1e-6)


def without_bounds(charges: list[dict[str, object]]) -> list[dict[str, object]]:
    """Return charges without the clipping bounds, which may follow noisy counts of float32."""
    return [
        {key: value for key, value in charge.items() if key != "max_grad_norm"}
        for charge in charges
    ]


def without_epsilons(value: Any) -> Any:
    """Return a value without its epsilons: the transforms of another processor round another way."""
    if isinstance(value, dict):
        kept = {key: each for key, each in value.items() if key != "epsilon"}
        return {key: without_epsilons(each) for key, each in kept.items()}
    if isinstance(value, list):
        return [without_epsilons(each) for each in value]
    return value


def epsilons(value: Any) -> list[float]:
    """Return all epsilons in a value, in order."""
    found: list[float] = []
    if isinstance(value, dict):
        for key, each in value.items():
            found += [each] if key == "epsilon" else epsilons(each)
    elif isinstance(value, list):
        for each in value:
            found += epsilons(each)
    return found
