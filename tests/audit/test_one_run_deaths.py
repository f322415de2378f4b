"""Audited runs that are killed or interrupted: coins stay, and lost releases only cost power."""

from __future__ import annotations

import json
import shutil

import pytest
import yaml
from audit.one_run_specs import SAMPLERS, SMALL
from killing import at_call, die, killed
from typer.testing import CliRunner

from dppipe.audit.one_run import power
from dppipe.audit.one_run.canaries import planting
from dppipe.audit.one_run.plan import AuditPlan
from dppipe.audit.one_run.training import audit_training
from dppipe.cli.app import app
from dppipe.errors import UsageError
from dppipe.pipeline.resume import prepare_resume
from dppipe.pipeline.run import run_spec
from dppipe.runs.ledger import Ledger
from dppipe.spec import Spec


def dppipe(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture(autouse=True)
def few_simulated_canaries(monkeypatch):
    """The chance to find a fault needn't be exact here."""
    monkeypatch.setattr(power, "_POOL", 1000)


@pytest.fixture
def spec(tmp_path):
    def write(**blocks):
        path = tmp_path / "spec.yaml"
        train = {"steps": 12, "checkpoint_every": 3}
        path.write_text(yaml.safe_dump(SMALL | {"train": train} | blocks))
        return path

    return write


def killed_audit(path, monkeypatch, spec, *, at):
    """Audit a spec in a process that is killed at the so-many-th charge."""
    monkeypatch.setattr(planting, "SAVED_EVERY", 0.0)

    def doomed():
        Ledger.charge = at_call(at, Ledger.charge, die)
        audit_training(spec, number=40, run_dir=path)

    killed(doomed)


@pytest.mark.parametrize("kind", ["poisson", "shuffle"])
def test_a_killed_audit_goes_on_with_its_coins(tmp_path, monkeypatch, kind):
    made = Spec.from_data(SMALL | SAMPLERS[kind] | {"train": {"steps": 12, "checkpoint_every": 3}})
    run = tmp_path / "run"
    killed_audit(run, monkeypatch, made, at=8)
    plan = (run / "audit" / "plan.json").read_bytes()
    coins = (run / "audit" / "coins.json").read_bytes()
    seen = json.loads((run / "audit" / "scores.json").read_text())["steps"]
    assert seen in (6, 7)
    done = dppipe("resume", run)
    assert done.exit_code in (0, 4), done.output
    assert "audit bound" in done.output
    assert (run / "audit" / "plan.json").read_bytes() == plan
    assert (run / "audit" / "coins.json").read_bytes() == coins
    found = json.loads((run / "audit.json").read_text())
    assert seen < found["steps_seen"] <= found["steps_charged"] <= 12
    assert dppipe("ledger", "verify", run).exit_code == 0


def test_a_resumed_audit_prints_one_json_object(tmp_path, monkeypatch):
    run = tmp_path / "run"
    killed_audit(run, monkeypatch, Spec.from_data(SMALL), at=8)
    told = json.loads(dppipe("resume", run, "--json").stdout)
    assert told["status"] == "completed"
    assert told["audit"] == json.loads((run / "audit.json").read_text())


@pytest.mark.slow
def test_a_run_that_was_killed_before_its_first_charge_keeps_its_coins(tmp_path, monkeypatch):
    run = tmp_path / "run"
    made = Spec.from_data(SMALL)
    killed_audit(run, monkeypatch, made, at=1)
    coins = (run / "audit" / "coins.json").read_bytes()
    assert dppipe("resume", run).exit_code in (0, 4)
    assert (run / "audit" / "coins.json").read_bytes() == coins


def test_an_unfinished_audit_tells_nothing_yet(tmp_path, monkeypatch):
    run = tmp_path / "run"
    killed_audit(run, monkeypatch, Spec.from_data(SMALL), at=8)
    done = dppipe("audit", run)
    assert done.exit_code == 2
    assert "coins are secret until" in " ".join(done.output.split())
    assert not (run / "audit.json").exists()


def test_a_killed_audit_does_not_go_on_without_its_canaries_or_with_other_coins(
    tmp_path, monkeypatch
):
    run = tmp_path / "run"
    killed_audit(run, monkeypatch, Spec.from_data(SMALL), at=8)
    rows = (run / "ledger.jsonl").read_bytes()
    directory, made, plan, _ = prepare_resume(run)
    with pytest.raises(UsageError, match="expected to go on with the canaries of its audit"):
        run_spec(made, plan, resume=directory)
    (run / "audit" / "coins.json").unlink()
    done = dppipe("resume", run)
    assert done.exit_code == 3
    assert "Coins are never drawn twice" in " ".join(done.output.split())
    assert not (run / "audit" / "coins.json").exists()
    assert (run / "ledger.jsonl").read_bytes() == rows


def test_an_audit_is_not_planned_after_the_first_charge(tmp_path, monkeypatch):
    run = tmp_path / "run"
    killed_audit(run, monkeypatch, Spec.from_data(SMALL), at=8)
    planned = AuditPlan.model_validate_json((run / "audit" / "plan.json").read_bytes())
    shutil.rmtree(run / "audit")
    from dppipe.audit.one_run.training import make_canaries
    from dppipe.errors import PrivacyRefusal
    from dppipe.pipeline.audited import Audited

    directory, made, plan, _ = prepare_resume(run)
    late = make_canaries(made, plan, kind="reserved", number=planned.number, made_up=True)
    with pytest.raises(PrivacyRefusal, match="planned before the first charge"):
        run_spec(made, plan, resume=directory, audited=Audited(late, made_up=True))


def test_the_command_shows_the_verdict_first_and_works_it_out_again(tmp_path, spec):
    run = tmp_path / "run"
    done = dppipe("audit", spec(), "--one-run", "--number", 60, "--out", run)
    assert done.exit_code in (0, 4)
    again = dppipe("audit", run)
    progress = ("step ", "setting up: ")
    shown = [line for line in done.output.splitlines() if not line.startswith(progress)]
    assert again.output.splitlines() == shown
    assert shown[0].startswith(("no contradiction; would have found", "CLAIM REJECTED (p = "))
    assert len(shown) <= 13
    assert "private" not in again.output
    data = json.loads(dppipe("audit", run, "--json").stdout)
    assert (data["number"], data["guesses"]) == (60, 24)
    assert data == json.loads((run / "audit.json").read_text())


def test_a_rejected_claim_ends_with_4(tmp_path, spec):
    from audit.one_run_campaign import noise_times

    with noise_times(0.01):
        done = dppipe("audit", spec(), "--one-run", "--number", 200, "--out", tmp_path / "run")
    assert done.exit_code == 4
    assert "CLAIM REJECTED (p = " in done.output
    assert "CLAIM REJECTED" in (tmp_path / "run" / "privacy.md").read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--canaries", "imputs"], "--canaries: expected reserved or inputs, got 'imputs'"),
        (["--number", "0"], "--number: expected at least 2 canaries, got 0"),
        (["--set", "reproducible=true"], "reproducible: expected false"),
    ],
)
def test_mistakes_are_named_and_nothing_is_made(tmp_path, spec, words, said):
    done = dppipe("audit", spec(), "--one-run", "--out", tmp_path / "run", *words)
    assert done.exit_code in (2, 3)
    assert said in " ".join(done.output.split())
    assert not (tmp_path / "run").exists()


def test_an_audits_model_is_not_scored(tmp_path, spec):
    run = tmp_path / "run"
    assert dppipe("audit", spec(), "--one-run", "--number", 4, "--out", run).exit_code in (0, 4)
    done = dppipe("evaluate", run)
    assert done.exit_code == 2
    assert "the model is not for use" in " ".join(done.output.split())
