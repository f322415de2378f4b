"""What every clipper keeps, over all that the registry finds, plugins included: no record moves the sum further than is stated.

Gradients are made up one by one: the loss of a record is the inner product of the weights with the record, so the record is its
gradient. Values are adversarial: zeros, denormals, huge ones, infinities and NaN, in any mixture.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from contracts.options import CLIPPERS
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import dppipe
from dppipe.clipper_abilities import in_state, refusal
from dppipe.clipping.base import Clipper
from dppipe.engine import Engine
from dppipe.engine.bounds import bounded_factors, takes_many_rows
from dppipe.errors import PrivacyRefusal, UsageError
from dppipe.learners.sgd.sensitivity import noise_unit
from dppipe.plugin_kit.checks.clipper_sums import (
    EXTREMES,
    RELATIONS,
    WIDTH,
    Weights,
    clipped,
    extreme_records,
    inner_product,
    judge_sums,
    neighbour,
    noise_is_enough,
    physical_batches_add_up,
    states,
    statistics_move_little,
)
from dppipe.spec.kinds.registry import Registry

PLUGINS = Path(dppipe.__file__).parents[1] / "plugins"
REGISTRY = Registry(PLUGINS)

CASES = [
    (kind, options) for kind in REGISTRY.kinds("clipping") for options in CLIPPERS.get(kind, [{}])
]
CASE = pytest.mark.parametrize(
    ("kind", "options"), CASES, ids=lambda part: part if isinstance(part, str) else str(part or "")
)


def make(kind: str, options: Mapping[str, Any]) -> Clipper:
    made = REGISTRY.load("clipping", kind).from_data(dict(options))
    assert isinstance(made, Clipper)
    return made


def names() -> Iterator[tuple[str, slice]]:
    start = 0
    for name, parameter in Weights().named_parameters():
        yield name, slice(start, start + parameter.numel())
        start += parameter.numel()


SPECIAL = st.sampled_from(EXTREMES)
RECORD = st.lists(st.one_of(SPECIAL, st.floats(-5, 5)), min_size=WIDTH, max_size=WIDTH)
RECORDS = st.lists(RECORD, min_size=1, max_size=7)


def as_records(rows: list[list[float]]) -> dict[int, Tensor]:
    return {index: torch.tensor(row, dtype=torch.float64) for index, row in enumerate(rows)}


@CASE
@pytest.mark.parametrize("relation", RELATIONS)
def test_one_record_changes_the_clipped_sum_by_at_most_the_stated_sensitivity(
    kind, options, relation
):
    clipper = make(kind, options)
    if refusal(clipper, relation) is not None:
        pytest.skip("refused by name")
    known = list(states(clipper))

    @settings(max_examples=25, deadline=None, database=None)
    @given(rows=RECORDS, other=RECORD, at=st.integers(0, 6), which=st.integers(0, len(known) - 1))
    def check(rows: list[list[float]], other: list[float], at: int, which: int) -> None:
        records = as_records(rows)
        changed = neighbour(
            records, at % len(rows), torch.tensor(other, dtype=torch.float64), relation
        )
        state = known[which]
        sums = (clipped(clipper, records, state), clipped(clipper, changed, state))
        judge_sums(clipper, state, sums, relation)

    check()


@CASE
@pytest.mark.parametrize(
    "check", [extreme_records, noise_is_enough, physical_batches_add_up, statistics_move_little]
)
def test_a_clipper_passes_the_checks_of_its_sums_with_each_set_of_options(kind, options, check):
    check(make(kind, options))


@CASE
def test_options_survive_being_written_and_read(kind, options):
    made = make(kind, options)
    written = made.to_data()
    assert written.pop("kind") == kind
    assert type(made).from_data(written) == made


# The slow references, from the formulas alone.


def columns(*endings: str) -> list[int]:
    """Return the places of the parameters whose names hold one of these texts."""
    return [
        i
        for name, part in names()
        if any(text in name for text in endings)
        for i in range(part.start, part.stop)
    ]


ALL, LAYERS = [columns("")], [columns("first"), columns("second"), columns("third")]
GROUPS: dict[tuple[str, int], tuple[list[list[int]], list[float] | None]] = {
    ("flat", 0): (ALL, [1.0]),
    ("layerwise", 0): (LAYERS, [3**-0.5] * 3),
    ("layerwise", 1): (LAYERS, [(4 / 9) ** 0.5, (3 / 9) ** 0.5, (2 / 9) ** 0.5]),
    ("layerwise", 2): (LAYERS, [1.0, 2.0, 2.0]),
    ("grouped", 0): (ALL, [1.5]),
    ("grouped", 1): (
        [columns("first.weight"), columns("bias"), columns("second.weight", "third.weight")],
        [2.0, 0.1, 1.0],
    ),
    ("adaptive", 0): (ALL, None),
    ("adaptive", 1): (LAYERS, None),
    ("adaptive", 2): ([columns("first"), columns("second", "third")], None),
}
"""The groups of each clipper that cuts groups at bounds, in the order of the parameters, with the bounds where they are fixed."""


def cut(record: Tensor, bound: float) -> Tensor:
    norm = float(record.norm())
    if not math.isfinite(norm):
        return torch.zeros_like(record)
    return record * min(1.0, bound / norm) if norm else record


def cut_groups(kind: str, variant: int, state: Any, record: Tensor) -> Tensor:
    groups, bounds = GROUPS[kind, variant]
    result = torch.zeros_like(record)
    for group, bound in zip(groups, bounds or state["bounds"], strict=True):
        result[group] = cut(record[group], bound)
    return result


def weigh(clipper: Any, state: Any, norm: float) -> float:
    """Return the factor of a gradient of this norm, for clippers with one."""
    bound = clipper.max_grad_norm
    if clipper.kind == "automatic":
        return (
            bound / (norm + 0.01) if clipper.variant == "auto_s" else bound / norm if norm else 0.0
        )
    if clipper.kind == "psac":
        return bound / (norm + 0.1 / (norm + 0.1))
    if clipper.kind == "global" and norm <= state["threshold"]:
        return bound / state["threshold"]
    return bound / norm if clipper.variant == "adaptive" else 0.0


def rescale_and_cut(state: Any, record: Tensor, bound: float) -> Tensor:
    """AdaClip: (g - a) / b cut to norm 1, with b = sqrt(s * sum of s); what is summed here is that times the bound."""
    if not state["mean"]:
        return cut(record, bound)
    mean = torch.cat([state["mean"][name] for name, _ in names()])
    spread = torch.cat([state["variance"][name] for name, _ in names()]).sqrt()
    b = torch.stack([(s * spread.sum()).sqrt() for s in spread])
    return bound * cut((record - mean) / b, 1.0)


def reference(
    kind: str, variant: int, clipper: Clipper, state: Any, records: Mapping[int, Tensor]
) -> Tensor:
    """Return the clipped sum, record by record."""
    if kind == "microbatch":
        slots = clipper.slots(numpy.array(list(records)), expected_batch_size=8).tolist()
        held = [
            [record for record, slot in zip(records.values(), slots, strict=True) if slot == each]
            for each in set(slots)
        ]
        return sum(cut(torch.stack(together).mean(0), clipper.max_grad_norm) for together in held)
    if (kind, variant) in GROUPS:
        return sum(cut_groups(kind, variant, state, record) for record in records.values())
    if kind == "adaclip":
        return sum(
            rescale_and_cut(state, record, clipper.max_grad_norm) for record in records.values()
        )
    finite = [record for record in records.values() if bool(record.norm().isfinite())]
    return sum(
        (record * weigh(clipper, state, float(record.norm())) for record in finite),
        torch.zeros(WIDTH),
    )


HAS_REFERENCE = pytest.mark.parametrize(
    ("kind", "options"), [case for case in CASES if case[0] not in ("jl", "soft")], ids=str
)
SIZES = st.one_of(
    st.sampled_from([value for value in EXTREMES if not 0 < abs(value) < 1e-9]),
    st.floats(1e-6, 5),
    st.floats(-5, -1e-6),
)
"""Any values but those so tiny that the core doesn't believe the norm."""


@HAS_REFERENCE
def test_a_built_in_equals_its_reference_on_adversarial_gradients(kind, options):
    clipper, variant = make(kind, options), CLIPPERS.get(kind, [{}]).index(options)
    known = list(states(clipper))

    @settings(max_examples=40, deadline=None, database=None)
    @given(
        rows=st.lists(st.lists(SIZES, min_size=WIDTH, max_size=WIDTH), min_size=1, max_size=7),
        which=st.integers(0, len(known) - 1),
    )
    def check(rows: list[list[float]], which: int) -> None:
        state, records = known[which], as_records(rows)
        wanted = reference(kind, variant, clipper, state, records)
        torch.testing.assert_close(
            clipped(clipper, records, state), wanted, rtol=1e-9, atol=1e-9, check_dtype=False
        )

    check()


@HAS_REFERENCE
def test_a_built_in_equals_a_slow_reference_written_from_its_formula(kind, options):
    clipper, variant = make(kind, options), CLIPPERS.get(kind, [{}]).index(options)
    generator = torch.Generator().manual_seed(5)
    records = {
        index: torch.randn(WIDTH, generator=generator, dtype=torch.float64) * 4.0 ** (index - 3)
        for index in range(7)
    }
    records[7] = torch.zeros(WIDTH, dtype=torch.float64)
    for state in states(clipper):
        wanted = reference(kind, variant, clipper, state, records)
        torch.testing.assert_close(clipped(clipper, records, state), wanted, rtol=1e-9, atol=1e-12)


def test_estimated_norms_have_the_law_that_the_failure_probability_is_worked_out_from():
    """A norm of 5 seen through 50 directions, 60 times: the mean of the squares within 5 sigma, a false alarm in 1.7 million."""
    clipper = make("jl", {"projections": 50, "tolerance": 0.5, "delta": 1e-6})
    engine = Engine(Weights(), inner_product, clipper)
    record = torch.tensor([[3.0, 0, 0, 0, 0, 4.0, 0, 0, 0]], dtype=torch.float64)
    seen = [
        engine.accumulate(record, engine.zeros(), bounds=engine.bounds()) * (1 - 0.5)
        for _ in range(60)
    ]
    assert float(torch.cat(seen).square().mean()) / 25 == pytest.approx(
        1, abs=5 * math.sqrt(2 / (50 * 60))
    )


# A built-in is written exactly as a plugin.


@pytest.mark.parametrize("kind", [kind for kind in REGISTRY.kinds("clipping") if kind != "soft"])
def test_a_built_in_file_moved_to_plugins_under_another_kind_works_unchanged(kind, tmp_path):
    source = (Path(dppipe.__file__).parent / "clipping" / f"{kind}.py").read_text()
    assert source.count(f'kind="{kind}"') == 1
    (tmp_path / f"moved_{kind}.py").write_text(source.replace(f'kind="{kind}"', 'kind="moved"'))
    options = CLIPPERS.get(kind, [{}])[-1]
    moved = Registry(tmp_path).load("clipping", "moved").from_data(dict(options))
    assert isinstance(moved, Clipper)
    built_in = make(kind, options)
    assert {**moved.to_data(), "kind": kind} == built_in.to_data()
    generator = torch.Generator().manual_seed(2)
    records = {
        index: torch.randn(WIDTH, generator=generator, dtype=torch.float64) for index in range(5)
    }
    if kind != "jl":
        assert torch.equal(clipped(moved, records), clipped(built_in, records))


@CASE
def test_factors_of_all_examples_at_once_are_those_of_each_example_alone(kind, options):
    """Bit for bit, over extreme norms and bounds: so a clipper that says `elementwise` is."""
    clipper = make(kind, options)
    if not takes_many_rows(clipper):
        pytest.skip("called with one example at a time")
    groups = set(clipper.groups({name: (1,) for name, _ in names()}).values())
    extremes = [value for value in EXTREMES if not value < 0]

    @settings(max_examples=50, deadline=None, database=None)
    @given(st.data())
    def check(data: st.DataObject) -> None:
        number = st.one_of(st.sampled_from(extremes), st.floats(0, 5))
        row = st.lists(number, min_size=len(groups), max_size=len(groups))
        norms = torch.tensor(data.draw(st.lists(row, min_size=1, max_size=5)))
        bounds = torch.tensor(data.draw(st.lists(st.floats(1e-3, 1e3), **size(len(groups)))))
        for state in states(clipper):
            placed = in_state(clipper, state)
            if takes_many_rows(placed):
                alone = torch.stack([placed.factors(row, bounds) for row in norms])
                together = placed.factors(norms, bounds)
                torch.testing.assert_close(together, alone, rtol=0, atol=0, equal_nan=True)

    check()


def size(count: int) -> dict[str, int]:
    return {"min_size": count, "max_size": count}


def test_a_plugin_is_called_with_one_example_at_a_time_whatever_it_says_of_itself():
    class Mixing(Clipper):
        elementwise = True

        def factors(self, norms: Tensor, bounds: Tensor) -> Tensor:
            assert norms.dim() == 1
            return (bounds / norms.sum()).expand(norms.shape)

    factors = bounded_factors(Mixing(), torch.tensor([[1.0], [3.0]]), torch.tensor([1.0]))
    torch.testing.assert_close(factors, torch.tensor([[1.0], [1.0 / 3.0]]))


# Clippers that lie.


class Liar(Clipper):
    """Returns factors that break the contract, as `lie` says."""

    lie: str = "honest"

    def factors(self, norms: Tensor, bounds: Tensor) -> Tensor:
        return LIES[self.lie](norms, bounds)


def _in_place(norms: Tensor, bounds: Tensor) -> Tensor:
    norms.mul_(0)
    bounds.mul_(1e9)
    return bounds


LIES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "negative": lambda norms, bounds: -1e3 + 0 * norms,
    "huge": lambda norms, bounds: 1e30 + 0 * norms,
    "infinite": lambda norms, bounds: norms / 0,
    "nan": lambda norms, bounds: norms * math.nan,
    "mean over dimension 0": lambda norms, bounds: norms.mean(0, keepdim=True) + 0 * norms,
    "in place": _in_place,
    "unclipped": lambda norms, bounds: torch.ones_like(norms),
}


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("relation", RELATIONS)
def test_a_clipper_that_lies_leaves_the_sensitivity_intact(lie, relation):
    clipper = Liar(lie=lie)

    @settings(max_examples=25, deadline=None, database=None)
    @given(rows=RECORDS, other=RECORD, at=st.integers(0, 6))
    def check(rows: list[list[float]], other: list[float], at: int) -> None:
        records = as_records(rows)
        changed = neighbour(
            records, at % len(rows), torch.tensor(other, dtype=torch.float64), relation
        )
        moved = float((clipped(clipper, records) - clipped(clipper, changed)).norm())
        assert moved <= (2 if relation == "replace_one" else 1) * (1 + 1e-6)

    check()


def test_factors_of_another_shape_are_refused():
    class Mean(Clipper):
        def factors(self, norms: Tensor, bounds: Tensor) -> Tensor:
            return norms.mean(0)

    with pytest.raises(UsageError, match="one factor for each"):
        clipped(Mean(), as_records([[1.0] * WIDTH] * 3))


def test_a_clipper_that_sets_an_attribute_on_itself_is_refused():
    class Remembers(Clipper):
        def factors(self, norms: Tensor, bounds: Tensor) -> Tensor:
            self.max_grad_norm = 5.0
            return norms

    class RemembersMore(Clipper):
        def factors(self, norms: Tensor, bounds: Tensor) -> Tensor:
            self.seen = norms
            return norms

    for liar in (Remembers(), RemembersMore()):
        with pytest.raises(
            UsageError,
            match=r"expected a frozen component to stay as it is, got an assignment to self\.(max|seen)",
        ):
            clipped(liar, as_records([[1.0] * WIDTH]))


def test_a_sensitivity_below_what_the_bounds_imply_is_refused():
    class Modest(Clipper):
        def sensitivity(self, bounds: Any, relation: Any) -> float:
            return 0.1

    class Averaging(Clipper):
        averages = True

        def slots(self, indices: Any, *, expected_batch_size: float) -> Any:
            return indices // 2

    for liar in (Modest(), Averaging()):
        with pytest.raises(PrivacyRefusal, match="sensitivity"):
            noise_unit(liar, (1.0, 1.0), "zero_out")
    for bad in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(PrivacyRefusal, match="bounds"):
            noise_unit(Liar(), (1.0, bad), "zero_out")
