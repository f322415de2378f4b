"""A plugin learner through `dppipe run`: plan, ledger, statement, curves, and its model."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from learners.plugin_runs import NEAREST, Desk, make_desk, read_json, rows_of
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import dppipe
from dppipe.budgets.scopes import Scope
from dppipe.budgets.store import Store
from dppipe.privacy.events.plain import event_from_data
from dppipe.runs.verify import verify_ledger

DELTA = 1e-5
RECORDS = 320


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the plugin in a process of its own, which tests only look at."""
    return make_desk(tmp_path_factory.mktemp("nearest") / "desk").run()


def test_the_plugin_is_short() -> None:
    assert len(NEAREST.splitlines()) < 60


def test_rows_charge_what_the_plan_holds_and_end_on_the_budget(finished: Path) -> None:
    plan, rows = read_json(finished / "plan.json"), rows_of(finished)
    assert [row["what"] for row in rows] == ["mean", "selection"]
    for row, planned in zip(rows, plan["releases"], strict=True):
        assert row["event"] == planned["event"]
        assert row["facts"] == planned["facts"]
        assert (row["count"], row["relation"], row["unit"]) == (1, "zero_out", "example")
    epsilons = [row["epsilon"] for row in rows]
    assert 0 < epsilons[0] < epsilons[1] <= plan["budget_epsilon"] == 2.0
    assert epsilons[1] > 1.99
    assert list(plan["plugins"]) == ["plugins/mine.py"]


def test_the_summary_counts_releases_and_claims_their_cost(finished: Path) -> None:
    summary = read_json(finished / "summary.json")
    assert summary["status"] == "completed"
    assert (summary["steps"], summary["charged"]) == (0, 2)
    assert summary["epsilon"] >= rows_of(finished)[-1]["epsilon"]
    assert summary["certified"] is True


def test_the_costs_are_those_of_an_accountant_of_its_own(finished: Path) -> None:
    # A Gaussian alone has an exact profile; the second release adds at most its epsilon.
    from dp_accounting import pld

    first, second = rows_of(finished)
    gaussian = event_from_data(first["event"])
    alone = pld.PLDAccountant().compose(gaussian).get_epsilon(DELTA)
    assert alone - 1e-3 <= first["epsilon"] <= alone * 1.005 + 1e-3
    assert second["epsilon"] <= first["epsilon"] + second["event"]["epsilon"] + 1e-3


def test_the_statement_names_both_releases_and_what_is_claimed(finished: Path) -> None:
    text = (finished / "privacy.md").read_text()
    for sentence in (
        "What is released is (2, 1e-05)-differentially private",
        "The model was learned by 'nearest' from the releases that are listed here alone.",
        "Every release was charged in the ledger before its noise was drawn.",
        "All releases and their noise were fixed before the first of them.",
        "A release named 'mean' (noise multiplier",
        "A release named 'selection' (candidates 3) was charged in the ledger",
        "What was released as 'selection' (candidates 3), in `released/`.",
    ):
        assert sentence in text
    assert "gradient" not in text
    assert "step" not in text.replace("How long a step or the run took", "")
    facts = read_json(finished / "privacy.json")
    assert facts["epsilon"] >= read_json(finished / "summary.json")["epsilon"]


def test_the_curve_of_epsilon_stands_at_each_row_and_equals_the_ledger(finished: Path) -> None:
    curves = EventAccumulator(str(finished))
    curves.Reload()
    spent = [(point.step, point.value) for point in curves.Scalars("privacy/epsilon")]
    left = [point.value for point in curves.Scalars("privacy/epsilon_remaining")]
    assert [step for step, _ in spent] == [row["row"] for row in rows_of(finished)]
    for (_, value), rest, row in zip(spent, left, rows_of(finished), strict=True):
        assert value == pytest.approx(row["epsilon"], rel=1e-6)
        assert rest == pytest.approx(2.0 - row["epsilon"], abs=1e-6)


def test_the_model_holds_what_was_released_and_loads(finished: Path) -> None:
    model = dppipe.load_model(finished, plugins=finished.parent / "plugins")
    weights = torch.load(finished / "checkpoints" / "final.ckpt", weights_only=True)
    released = torch.load(finished / "released" / "0001.pt", weights_only=True)["value"]
    chosen = torch.load(finished / "released" / "0002.pt", weights_only=True)["value"]
    torch.testing.assert_close(weights["mean"], released.view(5) / RECORDS)
    assert weights["chosen"] == chosen
    assert int(chosen) in range(3)
    assert torch.equal(model.mean, weights["mean"])


def test_the_ledger_is_whole_and_every_changed_byte_is_found(
    finished: Path, tmp_path: Path
) -> None:
    assert verify_ledger(finished).intact
    copy = tmp_path / "copy"
    shutil.copytree(finished, copy)
    ledger = copy / "ledger.jsonl"
    whole = ledger.read_bytes()
    for place in range(0, len(whole), 41):
        other = b"1" if whole[place : place + 1] != b"1" else b"2"
        ledger.write_bytes(whole[:place] + other + whole[place + 1 :])
        assert not verify_ledger(copy).intact, place


@pytest.mark.parametrize("kept", [[], [0], [1], [1, 0], [0, 0, 1]])
def test_a_row_that_is_missing_moved_or_repeated_is_found(
    finished: Path, tmp_path: Path, kept: list[int]
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(finished, copy)
    lines = (finished / "ledger.jsonl").read_bytes().splitlines(keepends=True)
    (copy / "ledger.jsonl").write_bytes(b"".join(lines[number] for number in kept))
    assert not verify_ledger(copy).intact
    (copy / "summary.json").unlink()
    assert not verify_ledger(copy).intact


def test_verify_ends_with_0_for_a_whole_ledger_and_4_for_another(
    finished: Path, tmp_path: Path
) -> None:
    home = Desk(tmp_path)
    shutil.copytree(finished, tmp_path / "copy")
    assert "the ledger is whole" in home.dppipe("ledger", "verify", "copy").output
    ledger = tmp_path / "copy" / "ledger.jsonl"
    ledger.write_bytes(ledger.read_bytes().replace(b'"count":1', b'"count":0', 1))
    home.dppipe("ledger", "verify", "copy", code=4)


def test_noise_that_does_not_fit_the_budget_is_refused_and_nothing_is_written(
    desk: Desk,
) -> None:
    words = ["run", "spec.yaml", "--run-dir", "run", "--set", "learner.noise_multiplier=0.5"]
    refused = desk.dppipe(*words, code=3)
    assert "learner.noise_multiplier: expected releases that cost at most epsilon 2" in (
        refused.output
    )
    assert not (desk.folder / "run").exists()


def test_noise_that_fits_is_used_as_it_is_set(desk: Desk) -> None:
    rows = rows_of(desk.run("learner.noise_multiplier=20"))
    assert rows[0]["event"] == {"type": "GaussianDpEvent", "noise_multiplier": 20.0}
    assert rows[1]["epsilon"] < 0.3


def test_without_a_budget_nothing_is_charged_noised_or_called_private(
    desk: Desk,
) -> None:
    run = desk.run("budget=none")
    weights = torch.load(run / "checkpoints" / "final.ckpt", weights_only=True)
    again = desk.run("budget=none", name="again")
    other = torch.load(again / "checkpoints" / "final.ckpt", weights_only=True)
    assert rows_of(run) == []
    assert torch.equal(weights["mean"], other["mean"])
    assert "NOT PRIVATE" in (run / "privacy.md").read_text()


def test_a_reproducible_run_repeats_itself_and_says_that_it_protects_nobody(
    desk: Desk,
) -> None:
    means = []
    for name in ("one", "two"):
        run = desk.run("reproducible=true", name=name)
        means.append(torch.load(run / "checkpoints" / "final.ckpt", weights_only=True)["mean"])
    assert torch.equal(*means)
    assert "no protection" in (run / "privacy.md").read_text()


def test_noise_of_two_runs_differs(finished: Path, desk: Desk) -> None:
    other = torch.load(desk.run() / "checkpoints" / "final.ckpt", weights_only=True)["mean"]
    mean = torch.load(finished / "checkpoints" / "final.ckpt", weights_only=True)["mean"]
    assert not (mean == other).any()


def test_a_shared_budget_is_reserved_settled_and_refuses_what_does_not_fit(
    desk: Desk,
) -> None:
    Store().create(Scope.make("clinic", epsilon=3.0, delta=DELTA, order=8.0))
    run = desk.run("budget.scope=clinic", "accountant=rdp", "budget.epsilon=1")
    status = Store().status("clinic")
    (entry,) = status.runs
    assert entry.state == "settled", entry
    assert read_json(run / "summary.json")["scope"]["name"] == "clinic"
    words = ["run", "spec.yaml", "--run-dir", "more", "--set", "budget.scope=clinic"]
    words += ["--set", "accountant=rdp", "--set", "budget.epsilon=2.9"]
    desk.dppipe(*words, code=3)
    assert not (desk.folder / "more" / "ledger.jsonl").exists()
    assert len(Store().status("clinic").runs) == 1


@pytest.fixture
def users_desk(desk: Desk) -> Desk:
    """The desk with records of 20 users, of whom the first has most."""
    generator = numpy.random.default_rng(0)
    owners = numpy.concatenate([numpy.arange(20), numpy.zeros(80, dtype=int)])
    inputs = generator.normal(size=(100, 5))
    numpy.savez(desk.folder / "d.npz", x=inputs, y=generator.integers(0, 3, 100), who=owners)
    return desk


def test_a_unit_is_all_records_of_one_user(users_desk: Desk) -> None:
    data = "{kind: npz, path: d.npz, classes: 3, user: who, users: 20, "
    data += "split: {train: 1, val: 0, test: 0}}"
    changes = (f"data={data}", "budget.delta=1e-3", "learner.max_norm=1.0")
    run = users_desk.run(*changes)
    plan: dict[str, Any] = read_json(run / "plan.json")
    assert (plan["unit"], plan["records"]) == ("user", 20)
    assert {row["unit"] for row in rows_of(run)} == {"user"}
    assert "one user" in (run / "privacy.md").read_text()
    plain = users_desk.run(*changes, "budget=none", name="plain")
    mean = torch.load(plain / "checkpoints" / "final.ckpt", weights_only=True)["mean"]
    with numpy.load(users_desk.folder / "d.npz") as file:
        inputs, owners = file["x"], file["who"]
    total = numpy.zeros(5)
    for user in range(20):
        average = inputs[owners == user].astype("float32").mean(0)
        total += average / max(1.0, float(numpy.linalg.norm(average)))
    numpy.testing.assert_allclose(mean.numpy(), total / 20, rtol=1e-5)


def test_the_plan_of_a_plugin_learner_is_made_without_torch(
    desk: Desk,
) -> None:
    file = desk.folder / "plugins" / "mine.py"
    file.write_text(NEAREST.replace("import torch\nfrom torch import nn\n", ""))
    code = (
        "import sys\nfrom dppipe.planning.privacy_plan import make_plan\n"
        "from dppipe.spec.load import load_spec\n"
        "plan = make_plan(load_spec('spec.yaml'))\n"
        "print([release.what for release in plan.releases], 'torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=desk.folder, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "['mean', 'selection'] False"


@pytest.mark.parametrize(("mechanism", "order"), [("gaussian", 2), ("laplace", 1)])
def test_units_are_clipped_in_the_norm_that_the_noise_needs(
    tmp_path, monkeypatch, mechanism, order
):
    from typer.testing import CliRunner

    from dppipe.cli.app import app
    from dppipe.learners import plugin_gate

    seen = []
    true_sum = plugin_gate.clipped_unit_sum

    def noting(*args, **options):
        seen.append(options["order"])
        return true_sum(*args, **options)

    monkeypatch.setattr(plugin_gate, "clipped_unit_sum", noting)
    plugin = NEAREST.replace("gaussian(scale)", f"{mechanism}(scale)")
    plugin = plugin.replace("exponential, gaussian", f"exponential, {mechanism}")
    desk = make_desk(tmp_path / "desk", plugin=plugin)
    monkeypatch.chdir(desk.folder)
    done = CliRunner().invoke(app, ["run", "spec.yaml", "--run-dir", "run"])
    assert done.exit_code == 0, done.output
    assert set(seen) == {order}
