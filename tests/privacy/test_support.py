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
    return verdict(
        sampler=sampler, relation=relation, accountant=accountant, adaptive=adaptive
    ).status


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
def test_adaptive_noise_needs_a_filter(
    sampler: str, relation: str, accountant: str, expected: str
) -> None:
    assert status(sampler, relation, accountant, adaptive=True) == expected


@pytest.mark.parametrize(("sampler", "relation"), list(itertools.product(SAMPLERS, RELATIONS)))
def test_every_refusal_says_why_and_who_follows_its_advice_has_a_proof(
    sampler: str, relation: str
) -> None:
    for accountant, adaptive, mechanism in itertools.product(
        ACCOUNTANTS, (False, True), ("gaussian", "laplace")
    ):
        given = {
            "relation": relation,
            "accountant": accountant,
            "adaptive": adaptive,
            "mechanism": mechanism,
        }
        found = verdict(sampler=sampler, **given)  # type: ignore[arg-type]
        assert found.why
        if found.status == "certified":
            assert not found.instead
            continue
        for advice in advised(found.instead):
            followed = verdict(sampler=sampler, **given | advice)  # type: ignore[arg-type]
            assert followed.status == "certified", (given, found.instead)


def advised(text: str) -> list[dict[str, object]]:
    """Return each way in which an advice can be followed."""
    ways: list[dict[str, object]] = [{}]
    for part in text.split(" and "):
        key, _, names = part.partition(": ")
        if key == "a noise schedule that is fixed before the run":
            key, names = "adaptive", ""
        choices = names.replace(" or ", ", ").split(", ") if names else [False]
        ways = [way | {key: choice} for way in ways for choice in choices]
    return ways


def test_the_least_change_is_advised() -> None:
    def advice(**changes: object) -> str:
        given = {
            "sampler": "without_replacement",
            "relation": "replace_one",
            "accountant": "pld",
        } | changes
        return verdict(**given).instead  # type: ignore[arg-type]

    assert advice(accountant="gdp") == "accountant: pld or rdp"
    assert advice(relation="zero_out") == "relation: replace_one"
    assert (
        advice(relation="zero_out", accountant="gdp")
        == "relation: replace_one and accountant: pld or rdp"
    )
    assert advice(mechanism="laplace") == "mechanism: gaussian"
    assert advice(adaptive=True) == "a noise schedule that is fixed before the run"


def test_where_there_is_an_estimate_rdp_has_a_bound() -> None:
    """The refusal of an estimate, and its statement, name rdp as the way out without knowing the sampler."""
    for sampler, relation, accountant in itertools.product(SAMPLERS, RELATIONS, ACCOUNTANTS):
        if status(sampler, relation, accountant) == "estimate":
            assert status(sampler, relation, "rdp") == "certified"


@pytest.mark.parametrize(
    ("key", "value"), [("sampler", "x"), ("relation", "x"), ("accountant", "x")]
)
def test_unknown_names_are_refused(key: str, value: str) -> None:
    given = {"sampler": "poisson", "relation": "zero_out", "accountant": "pld"} | {key: value}
    found = verdict(**given)  # type: ignore[arg-type]
    assert found.status == "refused"
    assert "'x'" in found.why


def test_matrix_and_accountant_modules_load_nothing_heavy() -> None:
    modules = [
        "dppipe.privacy.support",
        "dppipe.privacy.budget",
        "dppipe.runs.statement.text",
        "dppipe.privacy.accountants",
    ]
    modules += [f"dppipe.privacy.accountants.{name}" for name in ACCOUNTANTS]
    heavy = ("dp_accounting", "numpy", "scipy", "torch")
    code = f"import sys, {', '.join(modules)}; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
