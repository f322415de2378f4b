"""Every clipper with every sampler, schedule, accountant, relation and mechanism: a valid spec that can be planned, or a refusal
that names the block to change.

Combinations are drawn, some hundred in a run of this file; all 18,000 of them would take a quarter of an hour.
"""

from __future__ import annotations

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

import dppipe
from dppipe.errors import DppipeError
from dppipe.planning.privacy_plan import make_plan
from dppipe.spec import Registry, spec_from_text
from dppipe.spec.kinds.families import FAMILIES
from dppipe.spec.kinds.registry import built_in_kinds

PLUGINS = Path(dppipe.__file__).parents[1] / "plugins"
VARIANTS = {
    "adaptive": [
        "adaptive",
        "{kind: adaptive, grouping: layerwise}",
        '{kind: adaptive, max_grad_norms: {"*": 1.0}}',
    ],
    "flat": ["flat", "{kind: flat, bound_schedule: linear}"],
    "global": ["global", "{kind: global, variant: adaptive}"],
    "grouped": ['{kind: grouped, max_grad_norms: {"*": 1.0}}'],
    "jl": ["jl", "{kind: jl, projections: 60, tolerance: 0.6, delta: 1.0e-6}"],
}
CLIPPERS = [
    option for kind in Registry(PLUGINS).kinds("clipping") for option in VARIANTS.get(kind, [kind])
]
QUICK = ("advanced", "basic", "gdp", "rdp", "zcdp")
"""Accountants that plan three steps in a moment."""
NAMED = ("accountant", "clipping", "noise", "sampler")

SPEC = """
version: 1
name: t
data:      {{kind: synthetic, size: 1250, features: 4, classes: 3{users}}}
model:     logistic
optimizer: sgd
sampler:   {sampler}
clipping:  {clipping}
noise:     {{kind: {schedule}, noise_multiplier: 4.0, mechanism: {mechanism}}}
accountant: {accountant}
budget:    {{epsilon: 1.0e6, delta: 1.0e-5, relation: {relation}}}
train:     {{steps: 3}}
"""


def sampler_text(kind: str, relation: str) -> str:
    if kind == "full_batch":
        return kind
    secret = relation == "add_remove" and kind in ("poisson", "user")
    return f"{{kind: {kind}, expected_batch_size: 50{', sample_rate: 0.05' if secret else ''}}}"


@settings(max_examples=300, deadline=None, database=None)
@given(
    clipping=st.sampled_from(CLIPPERS),
    sampler=st.sampled_from(built_in_kinds(FAMILIES["sampler"])),
    schedule=st.sampled_from(Registry(PLUGINS).kinds("noise")),
    accountant=st.sampled_from(built_in_kinds(FAMILIES["accountant"])),
    relation=st.sampled_from(["zero_out", "add_remove", "replace_one"]),
    mechanism=st.sampled_from(["gaussian", "gaussian", "laplace"]),
)
def test_a_combination_can_be_planned_or_is_refused_by_name(
    clipping, sampler, schedule, accountant, relation, mechanism
):
    users = ", users: 1250" if sampler == "user" else ""
    text = SPEC.format(
        users=users,
        sampler=sampler_text(sampler, relation),
        clipping=clipping,
        schedule=schedule,
        mechanism=mechanism,
        accountant=accountant,
        relation=relation,
    )
    spec, said = None, ""
    try:
        spec = spec_from_text(text, plugins=PLUGINS)
    except DppipeError as refused:
        said = str(refused)
    if spec is None:
        assert said.splitlines()[0].split(": ")[1].split(".")[0] in NAMED, said
    elif accountant in QUICK:
        assert make_plan(spec, allow_estimate=True).steps <= 3
