"""`--set`: values, whole blocks, bare kinds and list items; a problem names the override that brought it."""

from __future__ import annotations

import pytest

from dppipe.errors import SpecError
from dppipe.spec import Spec, spec_from_text


def _set(base: str, *overrides: str) -> Spec:
    return spec_from_text(base, overrides=overrides)


def test_a_value_is_replaced(base: str) -> None:
    assert _set(base, "clipping.max_grad_norm=0.5").clipping.max_grad_norm == 0.5
    assert _set(base, "budget.delta=1e-6", "seed=3").seed == 3
    assert _set(base, "name='a-b'").name == "a-b"


def test_the_last_override_of_a_value_wins(base: str) -> None:
    assert _set(base, "seed=1", "seed=2").seed == 2
    assert (
        _set(base, "clipping.max_grad_norm=-1", "clipping={kind: flat}").clipping.max_grad_norm
        == 1.0
    )


def test_a_whole_block_is_replaced(base: str) -> None:
    spec = _set(base, "clipping={kind: layerwise}")
    assert (spec.clipping.kind, spec.clipping.max_grad_norm) == ("layerwise", 1.0)
    assert _set(base, "clipping=layerwise").clipping.kind == "layerwise"
    assert _set(base, "budget=none").budget == "none"


def test_options_of_the_old_kind_are_left_behind_and_reported(base: str) -> None:
    with pytest.raises(
        SpecError, match=r"spec\.yaml:11:\d+: noise\.end: expected a key of the constant kind"
    ):
        spec_from_text(
            base.replace("kind: constant,", "kind: linear, end: 0.5,"),
            overrides=["noise.kind=constant"],
        )


def test_a_bare_kind_becomes_a_block(base: str) -> None:
    text = base.replace("noise: {kind: constant, noise_multiplier: auto}", "noise: constant")
    assert spec_from_text(text, overrides=["noise.noise_multiplier=2"]).noise.noise_multiplier == 2


def test_a_block_that_is_not_there_is_made(base: str) -> None:
    assert _set(base, "data.split.train=0.5").data.split.train == 0.5
    assert (
        spec_from_text(
            base.replace("train: {epochs: 20}\n", ""), overrides=["train.steps=3"]
        ).train.steps
        == 3
    )


def test_an_item_of_a_list_is_replaced(base: str) -> None:
    assert _set(base, "model.hidden.0=64").model.to_data()["hidden"] == [64]


def test_nothing_takes_an_optional_value_away(base: str) -> None:
    assert _set(base, "train.epochs=", "train.steps=4").train.epochs is None


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("clipping.max_grad_norm=-3", "clipping.max_grad_norm: expected a number > 0, got -3."),
        (
            "clipping={kind: flat, max_grad_norm: -3}",
            "clipping.max_grad_norm: expected a number > 0, got -3.",
        ),
        (
            "clipping.max_grad_nrom=3",
            "clipping.max_grad_nrom: expected a key of the flat kind, got 'max_grad_nrom'.",
        ),
        ("clipping=flatt", "clipping.kind: no clipper named 'flatt'."),
        ("clipping={}", "clipping.kind: expected the name of a clipper, got nothing."),
        (
            "clipping.max_grad_norm=01",
            "clipping.max_grad_norm: expected a number without leading zeros, got 01.",
        ),
        ("clipping={a: [1", "clipping: expected YAML"),
        ("seed", "spec: expected KEY=VALUE"),
        ("=3", "spec: expected KEY=VALUE"),
        ("a..b=3", "spec: expected KEY=VALUE"),
        ("seed.low=3", "seed: expected a block to set 'low' in, got 7."),
        ("model.hidden.7=3", "model.hidden: expected a block to set '7' in, got a list."),
        ("model.hidden.0=x", "model.hidden.0: expected an integer, got 'x'."),
        ("train={until: budget}", "train.until: expected steps or epochs, got until: budget with"),
    ],
)
def test_a_problem_names_the_override_that_brought_it(
    override: str, message: str, base: str
) -> None:
    with pytest.raises(SpecError) as caught:
        _set(base, override)
    text = str(caught.value)
    assert message in text
    if not override.startswith("train="):  # a contradiction stands where the other half of it is
        assert text.startswith(f"--set {override}: {message}")


def test_overrides_apply_to_an_empty_file(base: str) -> None:
    with pytest.raises(SpecError, match="name: expected text, got nothing"):
        spec_from_text("", overrides=["version=1"])
