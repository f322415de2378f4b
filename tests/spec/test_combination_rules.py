"""Rules on parts together, over all built-in kinds: each refuses where it holds, nowhere else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import pytest

from dppipe.clipping.base import Clipper
from dppipe.clipping.flat import Flat
from dppipe.clipping.jl import Jl
from dppipe.data.reading.private_scaling import PrivateScaling
from dppipe.noise.base import NoiseSchedule
from dppipe.noise.constant import Constant
from dppipe.optim.schedules.linear import Linear as LinearFactor
from dppipe.privacy.budget import Budget
from dppipe.sampling.base import Sampler
from dppipe.sampling.poisson import Poisson
from dppipe.sampling.user import User
from dppipe.spec import spec_from_text
from dppipe.spec.combinations import refuse_together
from dppipe.spec.kinds.families import FAMILIES
from dppipe.spec.kinds.registry import built_in_kinds, load_built_in

DELTA = 1e-5
FALLING = LinearFactor(end=0.5)

CLIPPERS: dict[str, dict[str, Any]] = {
    "flat": {"kind": "flat"},
    "automatic": {"kind": "automatic"},
    "psac": {"kind": "psac"},
    "layerwise": {"kind": "layerwise"},
    "grouped": {"kind": "grouped", "max_grad_norms": {"*": 1.0}},
    "global": {"kind": "global"},
    "global adaptive": {"kind": "global", "variant": "adaptive"},
    "adaptive": {"kind": "adaptive"},
    "adaclip": {"kind": "adaclip"},
    "jl": {"kind": "jl", "delta": DELTA / 10},
    "microbatch": {"kind": "microbatch", "size": 4},
}
ADAPTS = {"adaptive", "global adaptive"}
NOT_BY_NORMS = {"adaclip", "jl"}
AVERAGES = {"microbatch"}
MAY_FAIL = {"jl"}


class Follows(NoiseSchedule, kind="follows"):
    """Noise that follows what was released."""

    adaptive = True


def clipper(name: str, **changes: Any) -> Clipper:
    options = {key: value for key, value in CLIPPERS[name].items() if key != "kind"} | changes
    made = load_built_in(FAMILIES["clipping"], CLIPPERS[name]["kind"]).model_validate(options)
    assert isinstance(made, Clipper)
    return made


def places(
    clipping: Clipper | None = None,
    noise: NoiseSchedule | None = None,
    *,
    sampler: Sampler | None = None,
    scaling: bool = False,
    **budget: Any,
) -> set[str]:
    """Return the places that are refused."""
    given = Budget(**{"epsilon": 1.0, "delta": DELTA} | budget)
    statistics = (PrivateScaling(noise_multiplier=4),) if scaling else ()
    found = refuse_together(
        sampler or Poisson(sample_rate=0.1),
        clipping or Flat(),
        noise or Constant(),
        budget=given,
        preludes=statistics,
    )
    return {".".join(map(str, refusal.path)) for refusal in found}


def expected(
    name: str,
    noise: NoiseSchedule,
    unit: str,
    drawn: str,
    relation: str,
    **others: Any,
) -> Iterator[str]:
    """Say which places are refused, rule by rule, by the kinds' names."""
    laplace = noise.mechanism == "laplace"
    if unit == "user" and drawn == "example":
        yield "budget.unit"
    if drawn == "user" and name in AVERAGES:
        yield "clipping.kind"
    if relation == "add_remove" and name == "microbatch":
        yield "clipping.kind"
    if name in MAY_FAIL and (noise.adaptive or others["scope"]):
        yield "clipping.kind"
    if laplace and name in NOT_BY_NORMS | AVERAGES | ADAPTS:
        yield "clipping.kind"
    if others["moves"] and name in NOT_BY_NORMS | ADAPTS:
        yield "clipping.bound_schedule"
    if laplace and noise.secure:
        yield "noise.mechanism"
    if laplace and noise.adaptive:
        yield "noise.mechanism"
    if others["scaling"] and relation == "add_remove":
        yield "data.normalize"
    if others["scaling"] and noise.adaptive:
        yield "data.normalize"


def test_every_built_in_clipper_is_looked_at_here() -> None:
    assert {options["kind"] for options in CLIPPERS.values()} == set(
        built_in_kinds(FAMILIES["clipping"]),
    )


@pytest.mark.parametrize("name", CLIPPERS)
def test_exactly_the_pairs_without_a_proof_are_refused(name: str) -> None:
    noises = product([Constant, Follows], ["gaussian", "laplace"], [False, True])
    settings = product(
        ["example", "user"],
        ["example", "user"],
        ["zero_out", "add_remove", "replace_one"],
    )
    switches = product([None, "shared"], [False, True], [False, True])
    for noise_of, setting, switch in product(list(noises), list(settings), list(switches)):
        kind, mechanism, secure = noise_of
        unit, drawn, relation = setting
        scope, scaling, moves = switch
        noise = kind(mechanism=mechanism, secure=secure)
        clipping = clipper(name, bound_schedule=FALLING if moves else None)
        sampler = User(sample_rate=0.1) if drawn == "user" else Poisson(sample_rate=0.1)
        found = places(
            clipping,
            noise,
            sampler=sampler,
            scaling=scaling,
            unit=unit,
            relation=relation,
            scope=scope,
        )
        wanted = expected(
            name,
            noise,
            unit,
            drawn,
            relation,
            scope=scope,
            scaling=scaling,
            moves=moves,
        )
        assert found == set(wanted), (noise_of, setting, switch)


@pytest.mark.parametrize("share", [0.5, 1.0, 1.5])
def test_what_pays_for_failing_bounds_is_less_than_all_of_delta(share: float) -> None:
    assert places(Jl(delta=share * DELTA)) == (set() if share < 1 else {"clipping.delta"})


def test_bounds_that_may_fail_and_are_not_paid_for_are_refused_under_every_relation() -> None:
    for relation in ("zero_out", "add_remove", "replace_one"):
        assert places(Jl(), relation=relation) == {"clipping.kind"}


HALVES: list[tuple[Sequence[str], str]] = [
    (["noise.mechanism=laplace", "noise.secure=true"], r"noise\.mechanism"),
    (["noise.mechanism=laplace", "clipping={kind: adaptive}"], r"clipping\.kind"),
    (["noise.mechanism=laplace", "clipping={kind: microbatch, size: 4}"], r"clipping\.kind"),
    (["noise.mechanism=laplace", "clipping={kind: adaclip}"], r"clipping\.kind"),
    (["clipping={kind: jl, delta: 1e-6}", "budget.scope=shared"], r"clipping\.kind"),
    (
        ["clipping={kind: adaptive}", "clipping.bound_schedule={kind: linear}"],
        r"clipping\.bound_schedule",
    ),
]


@pytest.mark.parametrize(
    ("overrides", "place"),
    HALVES,
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_spec_is_refused_for_two_parts_and_for_neither_of_them_alone(
    base: str,
    overrides: list[str],
    place: str,
) -> None:
    from dppipe.errors import DppipeError

    with pytest.raises(DppipeError, match=place):
        spec_from_text(base, overrides=overrides)
    for alone in overrides:
        if "bound_schedule" not in alone:
            usable = ["accountant=advanced", "sampler=full_batch"] if "laplace" in alone else []
            spec_from_text(base, overrides=[alone, *usable])
    spec_from_text(base, overrides=["clipping.bound_schedule={kind: linear}"])
