"""`--second-opinion` prints both epsilons with their errors, and ends with 4 on a contradiction."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from private_steps import step_charge
from typer.testing import CliRunner

from dppipe.cli.app import app
from dppipe.clipping.flat import Flat
from dppipe.noise.constant import Constant
from dppipe.planning.privacy_plan import PrivateParts, plan_privacy
from dppipe.privacy.accountants.pld import Pld
from dppipe.privacy.budget import Budget
from dppipe.privacy.second_opinion import SecondOpinion
from dppipe.runs.ledger import Ledger
from dppipe.sampling.poisson import Poisson

ACCOUNT = [
    "account",
    "--sample-rate",
    "0.01",
    "--noise-multiplier",
    "1",
    "--steps",
    "100",
    "--delta",
    "1e-5",
]


def invoke(*words: str) -> Any:
    return CliRunner().invoke(app, [*words, "--second-opinion"])


@pytest.fixture
def finished(tmp_path: Path) -> Path:
    """Write a plan of six steps and a ledger that charges them all."""
    private = PrivateParts(
        sampler=Poisson(sample_rate=0.1),
        clipping=Flat(),
        noise=Constant(noise_multiplier=1.0),
        accountant=Pld(),
        budget=Budget(epsilon=20.0, delta=1e-5),
    )
    plan = plan_privacy(private, name="test", records=1000, steps=6)
    run = tmp_path / "run"
    run.mkdir()
    (run / "plan.json").write_bytes(plan.to_json())
    with Ledger.create(run / "ledger.jsonl", plan=plan.to_json()) as ledger:
        for step in range(1, 7):
            charge = step_charge(
                step=step,
                event=private.sampler.event(private.noise.event(1.0), rate=plan.sample_rate),
                mechanism="gaussian",
                sampler="poisson",
                sample_rate=plan.sample_rate,
                noise_multiplier=1.0,
                max_grad_norm=1.0,
                relation="zero_out",
                unit="example",
                count=1,
                epsilon=plan.epsilon_after(step),
            )
            ledger.charge(charge)
    return run


@pytest.fixture
def too_high(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the second opinion lie far above every epsilon."""

    def opinion(epsilon_by: Callable[..., float]) -> SecondOpinion:
        return SecondOpinion(99.0, 0.5)

    monkeypatch.setattr("dppipe.runs.verification.second_opinion.second_opinion", opinion)
    monkeypatch.setattr("dppipe.privacy.second_opinion.second_opinion", opinion)


def test_account_prints_both_epsilons_with_their_errors() -> None:
    done = invoke(*ACCOUNT)
    assert done.exit_code == 0, done.output
    assert "second opinion" in done.output
    words = " ".join(done.output.split())
    assert "by dp_accounting's PLD, at most" in words
    assert "an upper bound, never below the truth" in words


def test_account_has_the_second_opinion_of_each_answer_as_json() -> None:
    done = invoke(*ACCOUNT, "--accountant", "all", "--json")
    assert done.exit_code == 0, done.output
    results = {one["accountant"]: one for one in json.loads(done.stdout)["results"]}
    pld, gdp = results["pld"]["second_opinion"], results["gdp"]["second_opinion"]
    assert pld["epsilon"] == pytest.approx(results["pld"]["epsilon"], rel=1e-3)
    assert pld["error"] < 0.01
    assert (pld["contradicts"], pld["ours_below_truth_by_at_most"]) == (False, 0.0)
    assert (gdp["contradicts"], gdp["ours_below_truth_by_at_most"]) == (False, None)


def test_account_says_why_there_is_no_second_opinion() -> None:
    done = invoke(*ACCOUNT, "--records", "1000", "--sampler", "without_replacement")
    assert done.exit_code == 0, done.output
    assert "none: dp_accounting's PLD has no bound" in " ".join(done.output.split())


def test_account_ends_with_four_if_the_second_opinion_lies_above(too_high: None) -> None:
    done = invoke(*ACCOUNT)
    assert done.exit_code == 4
    assert "CONTRADICTION" in done.output
    assert invoke(*ACCOUNT, "--accountant", "gdp").exit_code == 0  # an estimate claims nothing


def test_verify_ends_with_four_if_the_second_opinion_lies_above(
    finished: Path, too_high: None
) -> None:
    done = invoke("ledger", "verify", str(finished))
    assert done.exit_code == 4
    assert "CONTRADICTION" in done.output
    assert "the ledger is whole" in done.output


def test_verify_prints_both_epsilons_and_has_them_as_json(finished: Path) -> None:
    done = invoke("ledger", "verify", str(finished))
    assert done.exit_code == 0, done.output
    assert "second opinion" in done.output
    found = json.loads(invoke("ledger", "verify", str(finished), "--json").stdout)
    theirs = found["second_opinion"]
    assert theirs["epsilon"] - theirs["error"] <= found["epsilon"]
    assert theirs["epsilon"] == pytest.approx(found["epsilon"], rel=0.02)


def test_verify_has_no_second_opinion_on_a_ledger_that_is_not_whole(finished: Path) -> None:
    ledger = finished / "ledger.jsonl"
    ledger.write_bytes(ledger.read_bytes()[:-40])
    done = invoke("ledger", "verify", str(finished), "--json")
    assert done.exit_code == 4
    assert json.loads(done.stdout)["second_opinion"]["why"] == "the ledger is not whole"
