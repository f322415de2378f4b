"""Several files as one spec: what wins, what stays, and where each value stands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dppipe.errors import SpecError, UsageError
from dppipe.spec.load import find_hints, load_spec
from dppipe.spec.yaml.merging import Layer, layer_of, merge
from dppipe.spec.yaml.reader import read_yaml
from dppipe.spec.yaml.writer import write_yaml


def layer(data: Any, file: int) -> Layer:
    return layer_of(read_yaml(write_yaml(data) if data is not None else ""), file=file)


def texts(data: Any) -> Any:
    return st.dictionaries(st.sampled_from("abc"), data, max_size=3)


# A key is a block, a list or a number by its name, in every file: there merging is associative.
_trees = st.fixed_dictionaries(
    {},
    optional={
        "number": st.integers(0, 9),
        "list": st.lists(st.integers(0, 9), max_size=2),
        "block": st.fixed_dictionaries(
            {}, optional={"p": st.integers(0, 9), "q": st.fixed_dictionaries({"r": st.booleans()})}
        ),
    },
)
_any_trees = st.dictionaries(
    st.sampled_from(["a", "model", "kind"]),
    st.recursive(
        st.integers(0, 3) | st.sampled_from(["u", "v"]),
        lambda inner: (
            st.dictionaries(st.sampled_from(["a", "noise", "kind"]), inner, max_size=3)
            | st.lists(inner, max_size=2)
        ),
        max_leaves=6,
    ),
    min_size=1,
    max_size=3,
)


def leaves(data: Any, path: tuple[Any, ...] = ()) -> dict[tuple[Any, ...], Any]:
    if isinstance(data, dict):
        items: Any = data.items()
    elif isinstance(data, list):
        items = enumerate(data)
    else:
        return {path: data}
    found: dict[tuple[Any, ...], Any] = {}
    for key, value in items:
        found |= leaves(value, (*path, key))
    return found


@given(_trees, _trees, _trees)
@settings(deadline=None, max_examples=60)
def test_merging_is_associative_where_a_key_is_always_of_one_form(a: Any, b: Any, c: Any) -> None:
    one, two, three = layer(a, 0), layer(b, 1), layer(c, 2)
    left, right = merge(merge(one, two), three), merge(one, merge(two, three))
    assert left == right


@given(_any_trees)
@settings(deadline=None, max_examples=60)
def test_an_empty_file_is_the_identity_on_either_side(data: Any) -> None:
    one = layer(data, 0)
    assert merge(one, layer(None, 1)) == one
    assert merge(Layer(), one) == one


@given(_any_trees)
@settings(deadline=None, max_examples=60)
def test_a_file_over_itself_changes_nothing_but_the_places(data: Any) -> None:
    assert merge(layer(data, 0), layer(data, 1)).data == data


@given(_any_trees, _any_trees)
@settings(deadline=None, max_examples=120)
def test_every_value_keeps_the_place_of_the_file_that_it_came_from(under: Any, over: Any) -> None:
    layers = [layer(under, 0), layer(over, 1)]
    merged = merge(*layers)
    for path, value in leaves(merged.data).items():
        spot = merged.values[path]
        line = write_yaml([under, over][spot.file]).splitlines()[spot.line - 1]
        assert line[spot.column - 1 :].lstrip("'\"").startswith(str(value).lower())
        mine = leaves([under, over][spot.file])
        bare = path[-1:] == ("kind",) and path[:-1] in mine
        assert mine[path[:-1] if bare else path] == value
    for path in merged.values:  # no place is left of what is gone
        held = merged.data
        for part in path:
            held = held[part]


@given(_any_trees, _any_trees)
@settings(deadline=None, max_examples=60)
def test_all_of_the_later_file_is_in_the_result(under: Any, over: Any) -> None:
    merged = leaves(merge(layer(under, 0), layer(over, 1)).data)
    for path, value in leaves(over).items():
        assert value in (merged.get(path), merged.get((*path, "kind")))


@pytest.mark.parametrize(
    ("under", "over", "result"),
    [
        ({"kind": "flat", "x": 1}, {"kind": "jl"}, {"kind": "jl"}),
        ({"kind": "flat", "x": 1}, {"y": 2}, {"kind": "flat", "x": 1, "y": 2}),
        ({"kind": "flat", "x": 1}, {"kind": "flat"}, {"kind": "flat", "x": 1}),
        ({"kind": "flat", "x": 1}, "flat", {"kind": "flat", "x": 1}),
        ({"kind": "flat", "x": 1}, "jl", "jl"),
        ("flat", {"x": 1}, {"kind": "flat", "x": 1}),
        ("flat", {"kind": "jl", "x": 1}, {"kind": "jl", "x": 1}),
        (
            {"class_path": "a.B", "init_args": {"x": 1}},
            {"class_path": "a.C"},
            {"class_path": "a.C"},
        ),
        ({"kind": "flat", "x": 1}, {"class_path": "a.B"}, {"class_path": "a.B"}),
        ({"kind": "flat", "x": [1, 2]}, {"x": [3]}, {"kind": "flat", "x": [3]}),
        ({"kind": "flat"}, None, None),
    ],
)
def test_a_component_follows_its_kind(under: Any, over: Any, result: Any) -> None:
    merged = merge(layer({"clipping": under}, 0), layer({"clipping": over}, 1))
    assert merged.data == {"clipping": result}


def write(folder: Path, **files: str) -> list[Path]:
    for name, text in files.items():
        (folder / f"{name}.yaml").write_text(text)
    return [folder / f"{name}.yaml" for name in files]


def test_a_later_file_and_then_the_command_line_win(here: Path, base: str) -> None:
    files = write(here, base=base, more="optimizer: {lr: 0.5}\nseed: 8\n")
    spec = load_spec(files, overrides=["seed=9"])
    assert (spec.optimizer.lr, spec.optimizer.kind, spec.seed) == (0.5, "sgd", 9)  # type: ignore[union-attr]


def test_another_length_takes_the_place_of_the_first_and_is_told(here: Path, base: str) -> None:
    files = write(here, base=base, short="train: {steps: 5}\n", empty="# nothing\n")
    assert load_spec(files).train.steps == 5
    assert load_spec(files).train.epochs is None
    (hint,) = find_hints(files)
    assert "short.yaml:1:9: train.steps: this takes the place of train.epochs: 20" in hint
    assert "base.yaml:14:9" in hint
    assert load_spec(files, overrides=["train.epochs=3"]).train.steps is None


def test_both_rates_of_a_secret_number_of_records_stay(here: Path, base: str) -> None:
    secret = "budget: {relation: add_remove}\nsampler: {sample_rate: 0.1}\n"
    files = write(here, base=base, secret=secret, more="sampler: {expected_batch_size: 100}\n")
    sampler: Any = load_spec(files).sampler
    assert (sampler.sample_rate, sampler.expected_batch_size) == (0.1, 100)


def test_errors_name_the_file_that_is_wrong(here: Path, base: str) -> None:
    files = write(
        here,
        base=base.replace("lr: 0.25", "lr: -1"),
        cluster="\nclipping: {max_grad_norm: -2}\nsampler: {knd: poisson}\n",
    )
    with pytest.raises(SpecError) as caught:
        load_spec(files, overrides=["seed=-1"])
    assert [problem.place.removeprefix(f"{here}/") for problem in caught.value.problems] == [
        "base.yaml:6:28",
        "cluster.yaml:2:27",
        "cluster.yaml:3:11",
        "--set seed=-1",
    ]
    assert "     2 | clipping: {max_grad_norm: -2}" in str(caught.value)


def test_faults_of_all_files_are_told_at_once(here: Path, base: str) -> None:
    files = write(here, base=base + "seed: 1\n", cluster="a: [\n")
    with pytest.raises(SpecError) as caught:
        load_spec(files)
    assert "base.yaml:15:1: seed: expected each key once" in str(caught.value)
    assert "cluster.yaml:2:1" in str(caught.value)


def test_every_file_that_is_missing_is_named(here: Path) -> None:
    with pytest.raises(UsageError) as caught:
        load_spec(["one.yaml", "train.steps=5"])
    first, second = str(caught.value).splitlines()
    assert "one.yaml: expected a spec file" in first
    assert "--set train.steps=5" in second
