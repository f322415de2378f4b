"""Verification finds what was changed in a ledger, and computes epsilon from the rows alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from private_steps import step_charge
from typer.testing import CliRunner

from dppipe.cli.ledger import app
from dppipe.clipping.flat import Flat
from dppipe.errors import UsageError
from dppipe.noise.constant import Constant
from dppipe.noise.linear import Linear
from dppipe.planning.privacy_plan import PrivateParts, plan_privacy
from dppipe.planning.step_plan import StepPlan
from dppipe.privacy.accountants.rdp import Rdp
from dppipe.privacy.budget import Budget
from dppipe.privacy.printing import shown
from dppipe.runs.ledger import Charge, Ledger
from dppipe.runs.verify import verify_ledger
from dppipe.sampling.poisson import Poisson

STEPS = 12


def parts(noise: Constant | Linear) -> PrivateParts:
    return PrivateParts(
        sampler=Poisson(sample_rate=0.1),
        clipping=Flat(),
        noise=noise,
        accountant=Rdp(),
        budget=Budget(epsilon=20.0, delta=1e-5),
    )


def write_run(
    run: Path,
    *,
    charged: int = STEPS,
    noise: Constant | Linear | None = None,
    claim: float = 1.0,
    steps: int = STEPS,
) -> StepPlan:
    private = parts(noise or Constant(noise_multiplier=1.0))
    plan = plan_privacy(private, name="test", records=1000, steps=steps)
    run.mkdir()
    (run / "plan.json").write_bytes(plan.to_json())
    with Ledger.create(run / "ledger.jsonl", plan=plan.to_json()) as ledger:
        for step in range(1, charged + 1):
            ledger.charge(a_charge(private, plan, step=step, claim=claim))
        (run / "summary.json").write_text(
            json.dumps({"ledger_head": ledger.head, "charged": charged})
        )
    return plan


def a_charge(private: PrivateParts, plan: StepPlan, *, step: int, claim: float = 1.0) -> Charge:
    z = plan.noise_multiplier(step)
    return step_charge(
        step=step,
        event=private.sampler.event(private.noise.event(z), rate=plan.sample_rate),
        mechanism="gaussian",
        sampler="poisson",
        sample_rate=plan.sample_rate,
        noise_multiplier=z,
        max_grad_norm=1.0,
        relation="zero_out",
        unit="example",
        count=1,
        epsilon=plan.epsilon_after(step) * claim,
    )


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return tmp_path / "run"


@pytest.mark.parametrize(
    "noise",
    [Constant(noise_multiplier=1.0), Linear(noise_multiplier=1.0, end=0.9)],
    ids=["constant", "linear"],
)
def test_a_whole_run_verifies_and_costs_what_its_plan_said(
    run: Path, noise: Constant | Linear
) -> None:
    plan = write_run(run, noise=noise)
    found = verify_ledger(run)
    assert found.faults == ()
    assert found.epsilon == pytest.approx(plan.epsilon, rel=1e-9)
    assert (found.rows, found.charged, found.torn, found.certified) == (STEPS, STEPS, False, True)


def test_any_accountant_and_delta_can_be_asked(run: Path) -> None:
    write_run(run)
    own, pld, other = (
        verify_ledger(run),
        verify_ledger(run, accountant="pld"),
        verify_ledger(run, delta=1e-6),
    )
    assert (own.accountant, pld.accountant, other.delta) == ("rdp", "pld", 1e-6)
    assert own.epsilon is not None
    assert pld.epsilon is not None
    assert other.epsilon is not None
    assert pld.epsilon < own.epsilon < other.epsilon
    assert pld.intact
    with pytest.raises(UsageError, match="--accountant"):
        verify_ledger(run, accountant="plda")


def test_a_run_that_was_cut_short_has_an_odometers_claim_at_the_plans_own_delta(run: Path) -> None:
    plan = write_run(run, charged=5)
    found = verify_ledger(run)
    assert found.odometer == plan.odometer_claim(5)
    assert found.epsilon is not None
    assert found.odometer is not None
    assert found.epsilon < found.odometer < (plan.epsilon or 0)
    assert verify_ledger(run, delta=1e-6).odometer is None
    printed = CliRunner().invoke(app, ["verify", str(run)]).output
    assert f"odometer: epsilon {shown(found.odometer)}" in printed


def test_printed_epsilons_are_rounded_up_and_estimates_say_so(run: Path) -> None:
    write_run(run)
    printed = CliRunner().invoke(app, ["verify", str(run)]).output
    exact = verify_ledger(run).epsilon
    assert exact is not None
    assert float(printed.removeprefix("epsilon ").split()[0]) >= exact
    assert "ESTIMATE" not in printed
    assert (
        "by gdp, an ESTIMATE"
        in CliRunner().invoke(app, ["verify", str(run), "--accountant", "gdp"]).output
    )


def test_a_claim_below_the_cost_is_found(run: Path) -> None:
    write_run(run, claim=0.9)
    assert any("as the rows cost" in fault for fault in verify_ledger(run).faults)


@pytest.mark.parametrize("rows", [2, 12, 19, 20, 21, 39, 40, 41, 90])
def test_a_last_claim_below_the_cost_is_found_in_a_ledger_of_any_length(
    run: Path, rows: int
) -> None:
    """The last row states what the row before it does; every other claim is right."""
    plan = write_run(run, charged=rows - 1, steps=rows)
    private = parts(Constant(noise_multiplier=1.0))
    low = replace(a_charge(private, plan, step=rows), epsilon=plan.epsilon_after(rows - 1))
    with Ledger.open(run / "ledger.jsonl", plan=plan.to_json()) as ledger:
        ledger.charge(low)
    (run / "summary.json").unlink()
    (fault,) = verify_ledger(run).faults
    assert fault.startswith(f"{run / 'ledger.jsonl'}:{rows}: expected epsilon of at least")


def test_rows_taken_off_the_end_are_found_by_the_summary(run: Path) -> None:
    write_run(run)
    ledger = run / "ledger.jsonl"
    ledger.write_bytes(b"".join(ledger.read_bytes().splitlines(keepends=True)[:-2]))
    found = verify_ledger(run)
    assert len(found.faults) == 2
    assert "summary" in found.faults[0]


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-1],
        lambda data: data + b"\n",
        lambda data: data + b"{",
        lambda data: data.replace(b"poisson", b"poissoN", 1),
        lambda data: data[:-1] + b" \n",
        lambda data: data[:-200],
        lambda data: b"",
    ],
    ids=["no newline", "extra newline", "extra byte", "changed", "space", "torn", "empty"],
)
@pytest.mark.parametrize("summary", [True, False])
def test_damage_is_found(run: Path, damage: Callable[[bytes], bytes], *, summary: bool) -> None:
    write_run(run)
    if not summary:
        (run / "summary.json").unlink()
    ledger = run / "ledger.jsonl"
    ledger.write_bytes(damage(ledger.read_bytes()))
    if (
        summary or ledger.stat().st_size
    ):  # an empty ledger is that of a run which has done nothing yet
        assert not verify_ledger(run).intact


def test_a_ledger_cut_off_at_any_length_is_found(run: Path) -> None:
    write_run(run, charged=2)
    ledger = run / "ledger.jsonl"
    whole = ledger.read_bytes()
    for length in (*range(0, len(whole), 7), len(whole) - 1):
        ledger.write_bytes(whole[:length])
        assert not verify_ledger(run).intact, length


def test_a_changed_plan_is_found(run: Path) -> None:
    write_run(run)
    (run / "plan.json").write_bytes((run / "plan.json").read_bytes() + b" ")
    assert ":1:" in verify_ledger(run).faults[0]


@pytest.mark.parametrize("cut", [1, 50, 300])
def test_a_torn_line_is_counted_at_the_largest_cost_of_the_plan(run: Path, cut: int) -> None:
    noise = Linear(noise_multiplier=1.0, end=0.5)
    write_run(run, noise=noise, charged=3)
    ledger = run / "ledger.jsonl"
    lines = ledger.read_bytes().splitlines(keepends=True)
    ledger.write_bytes(b"".join(lines[:2]) + lines[2][:cut])
    found = verify_ledger(run)
    private = parts(noise)
    events = [
        private.sampler.event(private.noise.event(z), rate=0.1) for z in (1.0, 1 - 0.5 / 11, 0.5)
    ]
    expected = Rdp().compose([(event, 1) for event in events], relation="zero_out").epsilon(1e-5)
    assert (found.torn, found.rows, found.charged) == (True, 2, 3)
    assert found.epsilon == pytest.approx(expected, rel=1e-9)


def test_a_torn_first_line_counts_as_the_first_step(run: Path) -> None:
    plan = write_run(run, charged=1)
    (run / "ledger.jsonl").write_bytes((run / "ledger.jsonl").read_bytes()[:100])
    found = verify_ledger(run)
    assert (found.epsilon, found.charged) == (plan.epsilon_after(1), 1)


def test_the_command_prints_epsilon_and_ends_with_four_on_a_fault(run: Path) -> None:
    write_run(run)
    done = CliRunner().invoke(app, ["verify", str(run), "--json"])
    assert done.exit_code == 0
    assert json.loads(done.stdout)["intact"] is True
    assert "the ledger is whole" in CliRunner().invoke(app, ["verify", str(run)]).stdout
    ledger = run / "ledger.jsonl"
    ledger.write_bytes(ledger.read_bytes().replace(b'"step":5', b'"step":6'))
    done = CliRunner().invoke(app, ["verify", str(run)])
    assert done.exit_code == 4
    assert "ledger.jsonl:5:" in done.stderr
