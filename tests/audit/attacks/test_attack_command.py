"""`dppipe attack`: what it refuses, what it leaves behind, and that it agrees with the run."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

import pytest
from small_runs import SPEC
from typer.testing import CliRunner

from dppipe.audit.attacks.kinds import KINDS
from dppipe.audit.attacks.victim import open_victim
from dppipe.cli.app import app
from dppipe.pipeline.evaluate import evaluate_run

MEMBERSHIP = ("--kind", "membership", "--method")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Return a folder with small finished runs; commands in it leave nothing elsewhere."""
    folder = tmp_path_factory.mktemp("attacks")
    (folder / "spec.yaml").write_text(SPEC.replace("size: 1000", "size: 300"))
    changes = {
        "public": (),
        "secret": ("data.holdout=private",),
        "open": ("budget=none",),
        "other": ("budget=none", "seed=8"),
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name, sets in changes.items():
            words = [word for change in sets for word in ("--set", change)]
            done = command("run", "spec.yaml", "--run-dir", name, *words)
            assert done.exit_code == 0, done.output
        yield folder


def command(*words: str):
    return CliRunner().invoke(app, list(words))


def attack(*words: str):
    return command("attack", *words)


def test_each_method_leaves_its_files_and_the_statement_names_them(runs):
    for method in KINDS["membership"]:
        shadows = () if method == "loss" else ("--shadows", "2")
        done = attack("public", *MEMBERSHIP, method, *shadows)
        assert done.exit_code == 0, done.output
        folder = runs / "public" / "nonprivate" / "attack" / f"membership-{method}"
        found = json.loads((folder / "attack.json").read_text())
        assert found["method"] == method
        assert found["private"] is False
        assert found["private_run"]["members"] == 240
        assert found["private_run"]["non_members"] == 60
        assert 0 <= found["true_positives_at"]["0.01"]["private"]["value"] <= 1
        assert (folder / "roc.png").stat().st_size > 10_000
        assert "Don't release it" in (folder / "attack.md").read_text()
    left = {file.name for file in (runs / "public" / "nonprivate" / "attack").iterdir()}
    assert left == {f"membership-{method}" for method in KINDS["membership"]}
    stated = json.loads((runs / "public" / "privacy.json").read_text())
    assert "`nonprivate/attack/`" in stated["not_covered"]["attacks"]
    assert "`nonprivate/attack/`" in (runs / "public" / "privacy.md").read_text()


def test_the_screen_shows_few_lines_that_fit_and_json_is_the_file(runs):
    shown = attack("public", *MEMBERSHIP, "loss")
    lines = shown.stdout.splitlines()
    assert len(lines) <= 12
    assert max(map(len, lines[:-1])) <= 80
    assert lines[0].startswith("At 1 % false positives, loss finds ")
    data = json.loads(attack("public", *MEMBERSHIP, "loss", "--json").stdout)
    folder = runs / "public" / "nonprivate" / "attack" / "membership-loss"
    assert data == json.loads((folder / "attack.json").read_text())


def test_no_scope_ledger_or_temporary_folder_is_touched(runs, monkeypatch):
    monkeypatch.setenv("DPPIPE_STORE", str(runs / "stores" / "budgets.db"))
    ledger = (runs / "public" / "ledger.jsonl").read_bytes()
    before = _temporary()
    assert attack("public", *MEMBERSHIP, "rmia", "--shadows", "2").exit_code == 0
    assert (runs / "public" / "ledger.jsonl").read_bytes() == ledger
    assert _temporary() == before
    assert not (runs / "stores").exists()
    assert os.environ["DPPIPE_STORE"] == str(runs / "stores" / "budgets.db")


def _temporary() -> set[Path]:
    return set(Path(tempfile.gettempdir()).glob("dppipe-attack-*"))


def test_an_interrupted_attack_leaves_nothing(runs, monkeypatch):
    def interrupted(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("dppipe.audit.attacks.membership.shadows.train_on", interrupted)
    before = _temporary()
    done = attack("secret", *MEMBERSHIP, "lira", "--nonprivate")
    assert done.exit_code == 130
    assert _temporary() == before
    assert not (runs / "secret" / "nonprivate").exists()
    stated = json.loads((runs / "secret" / "privacy.json").read_text())
    assert "attacks" not in stated["not_covered"]


def test_records_of_a_private_holdout_need_a_word(runs, monkeypatch):
    def read(*args, **options):
        raise AssertionError("a record was read")

    monkeypatch.setattr("dppipe.audit.attacks.victim.split_records", read)
    done = attack("secret", *MEMBERSHIP, "loss")
    assert done.exit_code == 3
    assert "--nonprivate" in done.output
    assert not (runs / "secret" / "nonprivate").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("public", "--kind", "membrship"), "Did you mean 'membership'?"),
        (("public", *MEMBERSHIP, "liira"), "Did you mean 'lira'?"),
        (("public", *MEMBERSHIP, "rmia", "--shadows", "3"), "an even number"),
        (("public", *MEMBERSHIP, "rmia", "--shadows", "0"), "an even number"),
        (("public", *MEMBERSHIP, "loss", "--shadows", "4"), "needs no shadow models"),
        (("public", *MEMBERSHIP, "loss", "--members", "0"), "at least 1, got 0"),
        (("public", *MEMBERSHIP, "loss", "--twin-epochs", "-1"), "a number > 0, got -1"),
        (("public", *MEMBERSHIP, "loss", "--twin-epochs", "nan"), "a number > 0, got nan"),
        (("public", *MEMBERSHIP, "loss", "--twin", "public"), "got a private one"),
        (("public", *MEMBERSHIP, "loss", "--twin", "other"), "the same `data` and `seed`"),
        (("public", *MEMBERSHIP, "loss", "--twin", "open", "--twin-epochs", "3"), "got both"),
        (("public", *MEMBERSHIP, "loss", "--twin", "nowhere"), "expected a run directory"),
        (("open", *MEMBERSHIP, "loss"), "claims nothing"),
        (("nowhere", *MEMBERSHIP, "loss"), "expected a run directory"),
    ],
)
def test_a_mistake_is_refused_with_a_way_out(runs, words, says):
    done = attack(*words)
    assert done.exit_code == 2, done.output
    assert says in done.output
    assert "Traceback" not in done.output


def test_all_wrong_numbers_are_said_at_once(runs):
    done = attack("public", *MEMBERSHIP, "rmia", "--shadows", "1", "--members", "-2")
    assert done.exit_code == 2
    assert "--shadows" in done.output
    assert "--members" in done.output


def test_a_run_made_in_python_has_no_spec_to_attack_by(runs):
    config = runs / "public" / "config.yaml"
    kept = config.read_bytes()
    config.unlink()
    try:
        done = attack("public", *MEMBERSHIP, "loss")
    finally:
        config.write_bytes(kept)
    assert done.exit_code == 2
    assert "made in Python" in done.output


def test_a_finished_twin_is_used_and_not_trained(runs, monkeypatch):
    def train(*args, **options):
        raise AssertionError("something was trained")

    monkeypatch.setattr("dppipe.audit.attacks.twin.train_on", train)
    assert attack("public", *MEMBERSHIP, "loss", "--twin", "open").exit_code == 0


def test_the_victims_answers_are_those_of_its_own_evaluation(runs):
    victim = open_victim(runs / "public", nonprivate=False)
    scores = evaluate_run(runs / "public")
    holdout = victim.records.holdout
    test = holdout.take(list(range(30, 60)))  # validation records come first
    guesses = victim.model.log_probabilities(test.inputs).argmax(1)
    share = (guesses == test.targets).double().mean()
    assert float(share) == pytest.approx(scores["test/accuracy"])
    losses = victim.model.losses(test.inputs, test.targets)
    likely = victim.model.log_probabilities(test.inputs)
    assert losses.tolist() == pytest.approx(
        [-float(likely[i, t]) for i, t in enumerate(test.targets)]
    )


def test_the_claim_is_that_of_the_runs_own_curve(runs):
    claim = open_victim(runs / "public", nonprivate=False).claim
    assert float(claim.blow_up(0.01)) < float(claim.one_point(0.01))
    assert claim.advantage == pytest.approx(claim.certificate.delta(0.0))
    assert claim.certificate.epsilon(1e-5) == pytest.approx(claim.epsilon, rel=1e-3)
