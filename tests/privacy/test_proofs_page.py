"""docs/proofs.md is what events and samplers declare, and the declarations are whole."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from dppipe.privacy.events.base import event_names, rule_named
from dppipe.privacy.proofs import ACCOUNTANTS, EVERY_RELATION
from dppipe.privacy.reference import make_reference
from dppipe.privacy.support import SAMPLERS, relations, verdict

PAGE = Path(__file__).parents[2] / "docs" / "proofs.md"
WORK = {
    "pld": ("profile", "reach"),
    "rdp": ("divergences",),
    "zcdp": ("rho",),
    "gdp": ("mu_squared",),
    "basic": ("one_step",),
    "advanced": ("one_step",),
}
"""What a rule has to define for the accountants that it names."""


def test_the_page_of_proofs_is_current() -> None:
    """Write it anew with `make docs`."""
    assert PAGE.read_text(encoding="utf-8") == make_reference()


@pytest.mark.parametrize("name", event_names())
def test_a_rule_defines_what_the_accountants_of_its_proofs_need(name: str) -> None:
    rule = rule_named(name)
    for proof in rule.proofs:
        assert proof.source
        assert set(proof.accountants) <= set(ACCOUNTANTS)
        assert set(proof.filters) <= set(proof.accountants)
        assert set(proof.relations) <= set(EVERY_RELATION)
        assert bool(proof.case) == (proof.holds is not None)
        assert not proof.inside or "event" in rule.fields
        for accountant in proof.accountants:
            for needed in WORK.get(accountant, ()):
                assert getattr(rule, needed) is not None, (accountant, needed)
        if "tcdp" in proof.accountants:
            assert rule.rho is not None or rule.divergences is not None


def test_rules_of_events_load_nothing_heavy() -> None:
    code = (
        "import sys\n"
        "from dppipe.privacy.events.base import event_names\n"
        "from dppipe.privacy.support import SAMPLERS\n"
        "assert len(event_names()) > 10 and len(SAMPLERS) > 5\n"
        "heavy = ('dp_accounting', 'numpy', 'scipy', 'torch', 'attr')\n"
        "print([name for name in heavy if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_sampler_without_a_declared_proof_is_refused() -> None:
    for name in ("base", "fixed_size", "__init__", "nowhere", "../poisson"):
        assert verdict(sampler=name, relation="zero_out", accountant="pld").status == "refused"
        assert relations(name) == ()


def test_a_mechanism_without_an_event_is_refused() -> None:
    for sampler in SAMPLERS:
        found = verdict(
            sampler=sampler, relation=relations(sampler)[0], accountant="rdp", mechanism="uniform"
        )
        assert found.status == "refused"
        assert "'uniform'" in found.why
