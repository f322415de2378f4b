"""The spec as a value: the documented example loads, what is written reads back equal, and nothing but an error comes out."""

from __future__ import annotations

import copy
import hashlib
import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from dppipe.errors import PrivacyRefusal, SpecError
from dppipe.privacy.budget import Budget
from dppipe.spec import Spec, load_spec, spec_from_text, spec_hash
from dppipe.spec.yaml.writer import write_yaml

DOCUMENTED = """\
version: 1
name: digits
seed: 7                        # weight init, public splits, dropout; never the sampler or the noise
data:      {kind: digits, holdout: public}
model:     {kind: mlp, hidden: [128]}
optimizer: {kind: sgd, lr: 0.25, momentum: 0.9}
sampler:   {kind: poisson, expected_batch_size: 256}      # or sample_rate: 0.14; physical_batch_size: auto | N
clipping:  {kind: flat, max_grad_norm: 1.0}
noise:     {kind: constant, noise_multiplier: auto}       # auto: calibrated so that the budget lasts the planned steps
accountant: {kind: pld}
budget:    {epsilon: 3.0, delta: 1.0e-5}
train:     {epochs: 20}                                   # or steps: N, or until: budget
"""
SHORTEST = """\
version: 1
name: shortest
data: digits
model: logistic
optimizer: sgd
sampler: {kind: poisson, sample_rate: 0.1}
budget: {epsilon: 1, delta: 1e-5}
train: {steps: 10}
"""
EFFECTIVE = spec_from_text(DOCUMENTED).to_data()
PIPELINES = sorted((Path(__file__).parents[2] / "pipelines").glob("*.yaml"))


def test_the_documented_spec_loads() -> None:
    spec = spec_from_text(DOCUMENTED)
    assert (spec.name, spec.seed, spec.private) == ("digits", 7, True)
    assert spec.sampler.to_data() == {
        "kind": "poisson",
        "expected_batch_size": 256.0,
        "physical_batch_size": "auto",
    }
    assert spec.budget == Budget(epsilon=3.0, delta=1e-5)
    assert (spec.train.epochs, spec.train.steps, spec.train.until) == (20, None, None)
    assert spec.plugin_files() == {}


def test_what_is_left_out_has_its_default() -> None:
    spec = spec_from_text(SHORTEST)
    assert (spec.clipping.kind, spec.noise.kind, spec.accountant.kind) == (
        "flat",
        "constant",
        "pld",
    )
    assert spec.noise.noise_multiplier == "auto"
    assert (spec.seed, spec.reproducible, spec.diagnostics) == (0, False, "off")


@pytest.mark.parametrize("path", PIPELINES, ids=lambda path: path.stem)
def test_every_pipeline_is_valid_and_reads_back_equal(path: Path) -> None:
    spec = load_spec(path)
    assert spec_from_text(spec.to_yaml()) == spec


@pytest.mark.parametrize(
    "overrides",
    [
        [],
        ["budget=none"],
        ["budget.epsilon=0.1", "noise={kind: linear, end: 0.3333333333333333}"],
        [
            "sampler={kind: poisson, sample_rate: 1e-3, expected_batch_size: 1.7, physical_batch_size: 8}",
            "budget.relation=add_remove",
        ],
        [
            "model={class_path: torch.nn.Linear, init_args: {a: '1e-5', b: on, c: null, d: [0.1, {}], e: 1e22}}"
        ],
        ["optimizer.schedule={kind: cosine, warmup: 0.1}"],
        ["reproducible=true", "diagnostics=nonprivate", "name=a.b-c_1", "seed=4294967295"],
    ],
)
def test_the_effective_spec_reads_back_equal(overrides: list[str]) -> None:
    spec = spec_from_text(DOCUMENTED, overrides=overrides)
    again = spec_from_text(spec.to_yaml())
    assert again == spec
    assert again.to_yaml() == spec.to_yaml()
    assert (
        spec_hash(again) == spec_hash(spec) == hashlib.sha256(spec.to_yaml().encode()).hexdigest()
    )


def test_a_users_own_model_may_bring_its_own_optimizer() -> None:
    text = DOCUMENTED.replace("{kind: mlp, hidden: [128]}", "{class_path: my.Net}").replace(
        "optimizer:", "# optimizer:"
    )
    spec = spec_from_text(text)
    assert spec.optimizer is None
    assert spec.model.to_data() == {"kind": "class_path", "class_path": "my.Net", "init_args": {}}
    assert spec_from_text(spec.to_yaml()) == spec


def test_a_spec_is_frozen_and_can_be_pickled() -> None:
    spec = spec_from_text(DOCUMENTED)
    with pytest.raises(ValidationError):
        spec.seed = 8  # type: ignore[misc]
    assert pickle.loads(pickle.dumps(spec)) == spec


def test_a_spec_can_be_made_in_python() -> None:
    spec = spec_from_text(DOCUMENTED)
    made = Spec(**{name: getattr(spec, name) for name in Spec.model_fields})
    assert made == spec


def test_components_inside_components_are_found() -> None:
    kinds = sorted(component.kind for component in spec_from_text(DOCUMENTED).components())
    assert kinds == [
        "constant",
        "constant",
        "digits",
        "dp_sgd",
        "flat",
        "mlp",
        "pld",
        "poisson",
        "sgd",
    ]


_JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([2**62, -1, 10**9]),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=6),
    st.sampled_from(
        [
            "auto",
            "none",
            "flat",
            "linear",
            "poisson",
            "full_batch",
            "rdp",
            "add_remove",
            "replace_one",
            "budget",
            "class_path",
            "cnn",
        ]
    ),
    st.lists(st.integers(0, 3), max_size=3),
    st.dictionaries(
        st.sampled_from(["kind", "class_path", "init_args", "epsilon", "x"]),
        st.text(max_size=4) | st.integers(),
        max_size=3,
    ),
)


def _paths(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = (
        data.items()
        if isinstance(data, dict)
        else enumerate(data)
        if isinstance(data, list)
        else ()
    )
    return [found for key, value in items for found in ((*path, key), *_paths(value, (*path, key)))]


@st.composite
def _mutated(draw: st.DrawFn) -> dict[str, Any]:
    data = copy.deepcopy(EFFECTIVE)
    for _ in range(draw(st.integers(1, 4))):
        paths = _paths(data)
        if not paths:
            break
        *inside, key = draw(st.sampled_from(paths))
        holder = data
        for part in inside:
            holder = holder[part]
        action = draw(st.sampled_from(["replace", "replace", "delete", "rename", "add"]))
        if action == "replace" or isinstance(holder, list):
            holder[key] = draw(_JUNK)
        elif action == "add":
            holder[draw(st.sampled_from(["x", "sample_rate", "lr", "kind", "steps", "until"]))] = (
                draw(_JUNK)
            )
        else:
            value = holder.pop(key)
            if action == "rename":
                holder[f"{key}s"] = value
    return data


def _load(text: str) -> Spec | str:
    try:
        return spec_from_text(text)
    except (SpecError, PrivacyRefusal) as error:
        return str(error)


@given(_mutated())
@settings(max_examples=120, deadline=None)
def test_a_mutated_spec_loads_or_is_explained(data: dict[str, Any]) -> None:
    outcome = _load(write_yaml(data))
    if isinstance(outcome, Spec):
        assert spec_from_text(outcome.to_yaml()) == outcome
    else:
        assert outcome.startswith("spec.yaml:")


@given(st.data())
@settings(max_examples=120, deadline=None)
def test_torn_text_loads_or_is_explained(data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(DOCUMENTED)))
    stop = data.draw(st.integers(start, min(len(DOCUMENTED), start + 30)))
    text = (
        DOCUMENTED[:start]
        + data.draw(st.text("{}[]:-#'\"\n\t &*!|>%@`a1.", max_size=6))
        + DOCUMENTED[stop:]
    )
    outcome = _load(text)
    assert isinstance(outcome, Spec) or outcome.startswith("spec.yaml:")
