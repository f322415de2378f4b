"""Anchors and aliases: copies with places, limited in size, and never part of themselves."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dppipe.spec.load import spec_from_text
from dppipe.spec.yaml.aliases import MAX_COPIED
from dppipe.spec.yaml.document import Place
from dppipe.spec.yaml.reader import read_yaml


def test_an_alias_is_a_copy_whose_inside_stands_where_it_was_written() -> None:
    document = read_yaml("a: &x {b: [1, 2]}\nc: *x\n")
    assert not document.faults
    assert document.data == {"a": {"b": [1, 2]}, "c": {"b": [1, 2]}}
    assert document.data["a"] is not document.data["c"]
    assert document.data["a"]["b"] is not document.data["c"]["b"]
    assert document.values["c",] == Place(2, 4)
    assert document.values["c", "b", 1] == Place(1, 15)
    assert document.keys["c", "b"] == Place(1, 8)


def test_a_block_takes_the_keys_that_it_does_not_have_from_another() -> None:
    text = "a: &x {p: 1, q: {r: 2}}\nb:\n  <<: *x\n  p: 3\nc: {q: 4, <<: *x}\n"
    document = read_yaml(text)
    assert not document.faults
    assert document.data["b"] == {"p": 3, "q": {"r": 2}}
    assert document.data["c"] == {"q": 4, "p": 1}
    assert document.keys["b", "p"] == Place(4, 3)
    assert document.keys["b", "q"] == Place(1, 14)
    assert document.data["b"]["q"] is not document.data["a"]["q"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: *x\n", "the name of an anchor above, got *x"),
        ("a: *x\nb: &x 1\n", "the name of an anchor above, got *x"),
        ("a: &x [1, *x]\n", "the alias *x inside of itself"),
        ("a: &x {<<: *x}\n", "the alias *x inside of itself"),
        ("a: &x 1\nb: &x 2\n", "each anchor once, got &x twice"),
        ("a: &x 1\nb: {<<: *x}\n", "an alias of a block, got *x of a value"),
        ("b: {<<: {c: 1}, d: 2}\n", "`<<: *name`, an alias of a block"),
        ("b: {<<: [1], d: 2}\n", "`<<: *name`, an alias of a block"),
        ("&x a: 1\n", "a name as key, got an anchor"),
    ],
)
def test_what_an_alias_cannot_stand_for_is_a_fault(text: str, said: str) -> None:
    document = read_yaml(text)
    assert said in " ".join(fault.message for fault in document.faults)


def test_long_texts_count_by_their_length() -> None:
    document = read_yaml(f"a: &x {'y' * (MAX_COPIED // 2)}\nb: [*x, *x, *x]\n")
    assert not document.readable
    assert "stand for at most" in document.faults[0].message


def test_aliases_do_not_lead_deeper_than_lists_can() -> None:
    levels = ["a0: &a0 []"] + [f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, 30)]
    document = read_yaml("\n".join(levels))
    assert not document.readable
    assert "20 levels" in document.faults[0].message


def test_an_override_changes_one_copy_only(base: str) -> None:
    text = base.replace("model: {kind: mlp, hidden: [32]}", "model: {kind: mlp, hidden: &h [32]}")
    text = text.replace("seed: 7", "seed: &s 7") + "tune: null\n"
    spec = spec_from_text(text, overrides=["model.hidden.0=8"])
    assert spec.model.hidden == (8,)  # type: ignore[attr-defined]
    assert "&" not in spec.to_yaml()


_values = st.recursive(
    st.integers(-5, 5) | st.booleans() | st.text("abc", min_size=1, max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["p", "q", "r"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(_values)
@settings(deadline=None, max_examples=40)
def test_an_alias_is_read_as_if_it_were_written_out(value: object) -> None:
    document = read_yaml(f"v: &x {json.dumps(value)}\nw: *x\n")
    assert not document.faults
    assert document.data == {"v": value, "w": value}
