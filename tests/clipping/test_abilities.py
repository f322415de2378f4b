"""A clipper's abilities are known by the methods that it defines, also of earlier plugins."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import pytest
import torch
from torch import nn

from dppipe import clipper_abilities, clipping
from dppipe.clipper_abilities import (
    Adapts,
    Averages,
    DependsOnState,
    Factors,
    KeepsState,
    MayFail,
    Refuses,
    ReleasesStatistics,
    StatesSensitivity,
    Transforms,
    failure_delta,
    first_state,
    in_state,
    next_state,
    refusal,
    sensitivity,
    statistics_std,
)
from dppipe.clipping import Clipper, Flat
from dppipe.engine import Engine
from dppipe.errors import UsageError
from dppipe.learners.sgd.sensitivity import noise_unit
from dppipe.spec.kinds.registry import Registry

ABILITIES: dict[str, set[type]] = {
    "AdaClip": {KeepsState, DependsOnState, Adapts, Transforms},
    "Adaptive": {KeepsState, Adapts, ReleasesStatistics},
    "Automatic": set(),
    "Flat": set(),
    "Global": {KeepsState, DependsOnState, Adapts, ReleasesStatistics},
    "Grouped": {KeepsState},
    "Jl": {Refuses, MayFail},
    "Layerwise": {KeepsState},
    "Microbatch": {Averages, Transforms, StatesSensitivity, Refuses},
    "Psac": set(),
}
PROTOCOLS = [
    value
    for value in vars(clipper_abilities).values()
    if isinstance(value, type) and Protocol in value.__bases__ and value is not Factors
]


@pytest.mark.parametrize("name", sorted(set(clipping.__all__) - {"Clipper"}))
def test_a_built_in_clipper_has_the_abilities_that_it_defines(name: str) -> None:
    made = getattr(clipping, name).model_construct()
    assert {each for each in PROTOCOLS if isinstance(made, each)} == ABILITIES[name]


def test_the_base_class_has_three_methods_and_no_ability() -> None:
    public = [name for name in vars(Clipper) if not name.startswith("_")]
    methods = {name for name in public if callable(getattr(Clipper, name))}
    assert methods == {"groups", "bounds", "factors"}
    assert not any(isinstance(Flat(), each) for each in PROTOCOLS)


def test_a_clipper_without_abilities_gets_the_defaults() -> None:
    clipper = Flat()
    state: Mapping[str, Any] = {}
    assert first_state(clipper, {"all": 3}) == {}
    assert next_state(clipper, state, {"means": ()}) is state
    assert in_state(clipper, state) is clipper
    assert statistics_std(clipper, expected_batch_size=8.0) is None
    assert sensitivity(clipper, (3.0, 4.0), "zero_out") == 5.0
    assert sensitivity(clipper, (3.0, 4.0), "replace_one") == 10.0
    assert refusal(clipper, "add_remove") is None
    assert failure_delta(clipper, uses=1e9) == 0.0


EARLIER = '''
from typing import ClassVar
from dppipe import Clipper, Field

class Earlier(Clipper, kind="earlier"):
    """Averages pairs, keeps a bound and releases a count, as the version before let it."""
    averages = True
    growth: float = Field(2.0, gt=0)

    def init_state(self, group_sizes): return {"bound": self.max_grad_norm}
    def bounds(self, state): return state["bound"]
    def factors(self, norms, bounds): return (bounds / norms).clamp(max=1)
    def update(self, state, released): return {"bound": self.growth * state["bound"]}
    def at(self, state): return self
    def statistics_std(self, expected_batch_size): return 3.0
    def statistics(self, norms, bounds): return 0 * norms
    def slots(self, indices, *, expected_batch_size): return indices // 2
    def sensitivity(self, bounds, relation): return 4 * sum(bounds)
    def restore(self, state, gradient): return {name: 2 * each for name, each in gradient.items()}
    def refusal(self, relation): return "no" if relation == "add_remove" else None
    def failure_delta(self, *, uses): return 1e-7
'''


def test_a_plugin_of_the_version_before_loads_and_is_asked_for_all_that_it_defines(
    tmp_path: Path,
) -> None:
    (tmp_path / "earlier.py").write_text(EARLIER)
    clipper: Any = Registry(tmp_path).load("clipping", "earlier").from_data({"max_grad_norm": 0.5})
    assert all(isinstance(clipper, each) for each in PROTOCOLS)
    state = first_state(clipper, {"all": 3})
    assert next_state(clipper, state, {})["bound"] == 1.0
    assert statistics_std(clipper, expected_batch_size=8.0) == 3.0
    assert (refusal(clipper, "add_remove"), refusal(clipper, "zero_out")) == ("no", None)
    assert failure_delta(clipper, uses=5) == 1e-7
    assert noise_unit(clipper, (0.5,), "zero_out") == 2.0
    engine = Engine(nn.Linear(2, 1), lambda model, batch: model(batch).sum(1), clipper)
    assert engine.bounds(None).tolist() == [0.5]
    assert torch.equal(engine.bounds(next_state(clipper, state, {})), torch.tensor([1.0]))


@pytest.mark.parametrize(
    ("half", "missing"),
    [
        ("averages = True", r"slots\(indices, \*, expected_batch_size\)"),
        ("def statistics_std(self, size): return 1.0", r"statistics\(norms, bounds\)"),
    ],
)
def test_half_an_ability_is_refused_with_the_method_to_write(
    half: str, missing: str, tmp_path: Path
) -> None:
    text = "from dppipe import Clipper\nclass Half(Clipper, kind='half'):\n    'Has a fault.'\n"
    (tmp_path / "half.py").write_text(f"{text}    {half}\n")
    with pytest.raises(UsageError, match=f"Half: expected {missing}"):
        Registry(tmp_path).load("clipping", "half")
