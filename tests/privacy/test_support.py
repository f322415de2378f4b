"""The support matrix decides before any record is read, and says what would work."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path

import pytest

import dppipe
from dppipe.privacy.support import ACCOUNTANTS, SAMPLERS, verdict

RELATIONS = ("zero_out", "add_remove", "replace_one")
FAMILY = Path(dppipe.__file__).parent / "privacy" / "accountants"


def status(sampler: str, relation: str, accountant: str, *, adaptive: bool = False) -> str:
    return verdict(sampler=sampler, relation=relation, accountant=accountant, adaptive=adaptive).status


def test_every_accountant_of_the_package_is_in_the_matrix() -> None:
    assert {path.stem for path in FAMILY.glob("*.py")} - {"__init__", "base"} == set(ACCOUNTANTS)


@pytest.mark.parametrize(
    ("sampler", "relation", "accountant", "expected"),
    [
        ("poisson", "zero_out", "pld", "certified"),
        ("poisson", "add_remove", "rdp", "certified"),
        ("poisson", "zero_out", "tcdp", "certified"),
        ("poisson", "zero_out", "gdp", "estimate"),
        ("poisson", "zero_out", "zcdp", "refused"),
        ("poisson", "replace_one", "pld", "certified"),
        ("poisson", "replace_one", "rdp", "refused"),
        ("without_replacement", "replace_one", "pld", "certified"),
        ("without_replacement", "replace_one", "rdp", "certified"),
        ("without_replacement", "replace_one", "gdp", "refused"),
        ("without_replacement", "zero_out", "pld", "refused"),
        ("truncated_poisson", "zero_out", "pld", "certified"),
        ("truncated_poisson", "zero_out", "rdp", "refused"),
        ("truncated_poisson", "add_remove", "pld", "refused"),
        ("shuffle", "zero_out", "gdp", "certified"),
        ("shuffle", "replace_one", "zcdp", "certified"),
        ("shuffle", "add_remove", "gdp", "refused"),
        ("full_batch", "add_remove", "gdp", "certified"),
        ("balls_in_bins", "zero_out", "rdp", "certified"),
        ("balls_in_bins", "zero_out", "pld", "estimate"),
        ("with_replacement", "replace_one", "basic", "certified"),
        ("with_replacement", "replace_one", "advanced", "certified"),
        ("with_replacement", "replace_one", "rdp", "refused"),
        ("weighted", "zero_out", "pld", "refused"),
    ],
)
def test_the_matrix(sampler: str, relation: str, accountant: str, expected: str) -> None:
    assert status(sampler, relation, accountant) == expected


@pytest.mark.parametrize(
    ("sampler", "relation", "accountant", "expected"),
    [
        ("poisson", "zero_out", "rdp", "certified"),
        ("poisson", "zero_out", "tcdp", "certified"),
        ("poisson", "zero_out", "pld", "refused"),
        ("poisson", "zero_out", "gdp", "refused"),
        ("full_batch", "zero_out", "gdp", "certified"),
        ("full_batch", "zero_out", "zcdp", "certified"),
        ("full_batch", "zero_out", "pld", "refused"),
        ("shuffle", "zero_out", "zcdp", "refused"),
    ],
)
def test_adaptive_noise_needs_a_filter(sampler: str, relation: str, accountant: str, expected: str) -> None:
    assert status(sampler, relation, accountant, adaptive=True) == expected


@pytest.mark.parametrize(("sampler", "relation", "accountant"), list(itertools.product(SAMPLERS, RELATIONS, ACCOUNTANTS)))
def test_every_refusal_says_why_and_what_would_work(sampler: str, relation: str, accountant: str) -> None:
    for adaptive in (False, True):
        found = verdict(sampler=sampler, relation=relation, accountant=accountant, adaptive=adaptive)
        assert found.why
        if found.status == "certified":
            continue
        assert found.instead
        key, _, names = found.instead.partition(": ")
        for name in names.replace(" or ", ", ").split(", ") if names else []:
            given = {"sampler": sampler, "relation": relation, "accountant": accountant} | {key: name}
            if key == "accountant":
                assert verdict(**given, adaptive=adaptive).status == "certified"
            else:
                assert any(status(given["sampler"], given["relation"], other) == "certified" for other in ACCOUNTANTS)


@pytest.mark.parametrize(("key", "value"), [("sampler", "x"), ("relation", "x"), ("accountant", "x")])
def test_unknown_names_are_refused(key: str, value: str) -> None:
    given = {"sampler": "poisson", "relation": "zero_out", "accountant": "pld"} | {key: value}
    found = verdict(**given)  # type: ignore[arg-type]
    assert found.status == "refused"
    assert "'x'" in found.why


def test_matrix_and_accountant_modules_load_nothing_heavy() -> None:
    modules = ["dppipe.privacy.support", "dppipe.privacy.budget", "dppipe.privacy.statement_text", "dppipe.privacy.accountants"]
    modules += [f"dppipe.privacy.accountants.{name}" for name in ACCOUNTANTS]
    heavy = ("dp_accounting", "numpy", "scipy", "torch")
    code = f"import sys, {', '.join(modules)}; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
