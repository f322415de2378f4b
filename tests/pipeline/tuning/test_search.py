"""A private search: one charge, one winner, and nothing else that leaves."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from pipeline.tuning.searches import (
    ANOTHER_LEARNER,
    LOST,
    SCORES,
    all_bytes,
    begin,
    command,
    known_order,
    known_scores,
    rows,
    setting_of,
    write_spec,
)
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import dppipe
from dppipe.errors import DppipeError, Interrupted
from dppipe.pipeline.prediction.predictor import Predictor
from dppipe.pipeline.tuning import candidates
from dppipe.runs.verify import verify_ledger

LEARNERS = pytest.mark.parametrize(
    "changes", [(), ANOTHER_LEARNER], ids=["dp_sgd", "output_perturbation"]
)


@pytest.fixture
def made(changes: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    known_scores(monkeypatch)
    known_order(monkeypatch, 0, 1, 0)
    command("tune", str(write_spec(tmp_path, *changes)), "--run-dir", str(tmp_path / "run"))
    return tmp_path / "run"


@LEARNERS
def test_one_row_pays_for_everything_and_the_winner_counts_nothing(
    made: Path, changes: Any
) -> None:
    (paid,) = rows(made / "ledger.jsonl")
    assert (paid["what"], paid["count"]) == ("selection", 1)
    covered = rows(made / "tune" / "winner" / "ledger.jsonl")
    assert [row.get("what", "step") for row in covered] == (
        ["weights"] if changes else ["step"] * 3
    )
    assert {row["count"] for row in covered} == {0}
    assert {row["covered_by"] for row in covered} == {paid["hash"]}
    found = verify_ledger(made)
    assert found.intact, found.faults
    assert found.charged == 1


@LEARNERS
def test_the_winner_is_the_run(made: Path, changes: Any) -> None:
    option = "regularization" if changes else "lr"
    assert f"{option}: 0.5" in (made / "config.yaml").read_text()
    assert "tune:" in (made / "tune" / "config.yaml").read_text()
    summary = json.loads((made / "summary.json").read_text())
    assert summary["metrics"] == {"val/accuracy": SCORES[0.5]}
    command("evaluate", str(made))
    assert "expected an unfinished run" in command("resume", str(made), code=2)


@LEARNERS
def test_the_winner_s_curves_show_its_steps_and_no_time_of_the_search(
    made: Path, changes: Any
) -> None:
    """`privacy/epsilon` is what the search costs: the winner's curves have another name."""
    found = EventAccumulator(str(made / "tune" / "winner"))
    found.Reload()
    names = set(found.Tags()["scalars"])
    of_steps = {"privacy/noise_multiplier", "privacy/max_grad_norm", "privacy/sample_rate"}
    assert names == {"tune/epsilon_of_one_run", "val/accuracy"} | (set() if changes else of_steps)
    covered = rows(made / "tune" / "winner" / "ledger.jsonl")
    points = found.Scalars("tune/epsilon_of_one_run")
    assert [point.value for point in points] == pytest.approx([row["epsilon"] for row in covered])
    assert [point.step for point in points] == [1] if changes else [1, 2, 3]
    moment = int((made / "plan.json").stat().st_mtime)
    assert {point.wall_time for point in points} == {moment}


@LEARNERS
def test_nothing_that_leaves_depends_on_the_number_of_runs(
    changes: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a search with one run and one with five the same winner leaves the same bytes."""
    known_scores(monkeypatch)
    spec = write_spec(tmp_path, *changes)
    left: list[tuple[str, dict[str, bytes]]] = []
    for order in [(1,), (0, 0, 1, 0, 0)]:
        known_order(monkeypatch, *order)
        run = tmp_path / "run"
        said = command("tune", str(spec), "--run-dir", str(run))
        left.append((said, all_bytes(run)))
        for path in run.rglob("*"):
            if path.name != "ledger.jsonl" or path.parent != run:
                moment = (run / "plan.json").stat().st_mtime
                assert path.stat().st_mtime == pytest.approx(moment, abs=1e-5, rel=0)
        run.rename(tmp_path / f"of_{len(order)}")
    (said, few), (again, many) = left
    assert said == again
    assert not [name for name in many if "sealed" in name]
    own = ("origin.json", "checkpoints/final.ckpt")  # ids of the run, and weights with fresh noise
    for name in few.keys() & many.keys():
        if name not in own:
            assert few[name] == many[name], name
    assert {name for name in few.keys() ^ many.keys() if "tfevents" not in name} == set()
    assert LOST.encode() not in b"".join(many.values())


@LEARNERS
def test_a_run_that_fails_loses_and_is_not_begun_again(
    changes: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    known_scores(monkeypatch)
    known_order(monkeypatch, 1, 0, 1)
    trained: list[float] = []
    usual = candidates.run_paid

    def train(spec: Any, *args: Any, **options: Any) -> Any:
        trained.append(setting_of(spec))
        if setting_of(spec) == 0.5:
            print("a secret")
            raise RuntimeError("a record's value")
        return usual(spec, *args, **options)

    monkeypatch.setattr(candidates, "run_paid", train)
    begin(write_spec(tmp_path, *changes), tmp_path / "run")
    assert trained == [0.5, 0.1, 0.5]
    assert (
        f"{'regularization' if changes else 'lr'}: 0.1"
        in (tmp_path / "run" / "config.yaml").read_text()
    )
    assert "secret" not in "".join(capfd.readouterr())


@pytest.mark.parametrize("order", [(), (0, 1)])
def test_a_search_without_a_model_says_no_more_than_that(
    order: tuple[int, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known_order(monkeypatch, *order)

    def fail(*args: Any, **options: Any) -> Any:
        raise RuntimeError

    monkeypatch.setattr(candidates, "run_paid", fail)
    run = tmp_path / "run"
    said = command("tune", str(write_spec(tmp_path)), "--run-dir", str(run), code=1)
    assert "it has made no run, or every run has failed" in " ".join(said.split())
    assert json.loads((run / "tune.json").read_text())["winner"] is None
    assert not (run / "tune" / "sealed").exists()
    assert len(rows(run / "ledger.jsonl")) == 1
    with pytest.raises(AssertionError):  # nor does it go on
        command("resume", str(run))


def test_an_interrupted_search_goes_on_and_names_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known_scores(monkeypatch)
    drawn = known_order(monkeypatch, 0, 1, 0)
    usual = candidates.run_paid
    calls: list[int] = []

    def train(*args: Any, **options: Any) -> Any:
        calls.append(1)
        if len(calls) == 3:
            signal.raise_signal(signal.SIGINT)
        return usual(*args, **options)

    monkeypatch.setattr(candidates, "run_paid", train)
    run = tmp_path / "run"
    with pytest.raises(Interrupted) as error:
        begin(write_spec(tmp_path), run)
    assert str(error.value) == (f"{run}: the search was stopped. Go on with: dppipe resume {run}")
    assert error.value.__context__ is None
    assert error.value.exit_code == 130
    assert json.loads((run / "summary.json").read_text())["status"] == "interrupted"
    assert not (run / "tune" / "sealed" / "0").exists()  # it has lost to the second run
    assert LOST.encode() not in b"".join(all_bytes(run).values())
    command("resume", str(run))
    assert len(drawn) == 1
    assert len(calls) == 4
    assert verify_ledger(run).intact


@pytest.mark.parametrize("harm", ["missing", "damaged", "all of it", "progress"])
def test_a_lost_order_is_refused_and_stays_charged(
    harm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known_scores(monkeypatch)
    drawn = known_order(monkeypatch, 0, 1, 0)
    stopped(tmp_path, monkeypatch)
    run = tmp_path / "run"
    sealed = run / "tune" / "sealed"
    assert sealed.stat().st_mode & 0o777 == 0o700
    assert (sealed / "order.json").stat().st_mode & 0o777 == 0o600
    if harm == "missing":
        (sealed / "order.json").unlink()
    elif harm == "damaged":
        text = (sealed / "order.json").read_text()
        (sealed / "order.json").write_text(text.replace("[0, 1, 0]", "[0, 1, 1]"))
    elif harm == "progress":
        (sealed / "progress.json").unlink()
    else:
        import shutil

        shutil.rmtree(sealed)
    before = (run / "ledger.jsonl").read_bytes()
    for _ in range(2):
        said = command("resume", str(run), code=3)
        assert "may not be drawn a second time" in " ".join(said.split())
    assert len(drawn) == 1
    assert (run / "ledger.jsonl").read_bytes() == before
    assert verify_ledger(run).charged == 1
    assert not (run / "checkpoints" / "final.ckpt").exists()


def stopped(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave a search that was interrupted in its second run."""
    usual = candidates.run_paid
    calls: list[int] = []

    def train(*args: Any, **options: Any) -> Any:
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return usual(*args, **options)

    monkeypatch.setattr(candidates, "run_paid", train)
    with pytest.raises(Interrupted):
        begin(write_spec(folder), folder / "run")


@pytest.mark.parametrize("holdout", ["public", "private"])
def test_the_statement_says_how_runs_were_scored(
    holdout: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known_order(monkeypatch, 1)
    run = tmp_path / "run"
    spec = write_spec(tmp_path, ("holdout: public", f"holdout: {holdout}"), *ANOTHER_LEARNER)
    command("tune", str(spec), "--run-dir", str(run))
    said = json.loads((run / "privacy.json").read_text())["not_covered"]["holdout"]
    assert "the best of several" in said
    std = json.loads((run / "plan.json").read_text())["search"]["score"]["noise_std"]
    if holdout == "public":
        assert std is None
        assert "declared public" in said
    else:
        assert f"Gaussian noise of standard deviation {std:g}" in said
        assert "the number of right answers" in said


def test_a_whole_search_is_settled_in_its_scope(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known_scores(monkeypatch)
    known_order(monkeypatch, 1)
    scoped = ("delta: 1.0e-5}", "delta: 1.0e-5, scope: shared}")
    spec = write_spec(tmp_path, scoped)
    command("budget", "create", "shared", "--like", str(spec), "--epsilon", "20")
    run = tmp_path / "run"
    command("tune", str(spec), "--run-dir", str(run))
    shown = json.loads(command("budget", "show", "shared", "--json"))
    (entry,) = shown["runs"]
    assert entry["state"] == "settled"
    assert shown["epsilon_spent"] >= json.loads((run / "summary.json").read_text())["epsilon"]


@LEARNERS
def test_private_statistics_are_released_once(
    changes: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known_scores(monkeypatch)
    known_order(monkeypatch, 1, 0, 1)
    private = (
        "classes: 3,",
        "classes: 3, normalize: {kind: private, noise_multiplier: 20},",
    )
    run = tmp_path / "run"
    command("tune", str(write_spec(tmp_path, private, *changes)), "--run-dir", str(run))
    assert [row["what"] for row in rows(run / "ledger.jsonl")] == ["statistics", "selection"]
    winner = rows(run / "tune" / "winner" / "ledger.jsonl")
    assert {row.get("what", "step") for row in winner} == {"weights" if changes else "step"}
    assert verify_ledger(run).intact
    command("evaluate", str(run))
    inputs = torch.randn(5, 4, generator=torch.Generator().manual_seed(0)) * 10
    predicted = Predictor.open(run).outputs(inputs)
    torch.testing.assert_close(predicted, dppipe.load_model(run)(inputs).detach())
    scaling = json.loads((run / "statistics.json").read_text())
    scaled = (inputs - torch.tensor(scaling["mean"])) / torch.tensor(scaling["std"])
    weight, bias = torch.load(run / "checkpoints" / "final.ckpt", weights_only=True).values()
    if changes:  # this learner's model cuts each record to a norm of one
        scaled = scaled / scaled.norm(dim=1, keepdim=True).clamp(min=1)
    torch.testing.assert_close(predicted, scaled @ weight.T + bias, rtol=1e-5, atol=1e-5)


def test_what_no_search_can_run_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with pytest.raises(DppipeError, match="reproducible"):
        begin(write_spec(tmp_path, ("seed: 7", "seed: 7\nreproducible: true")), run)
    assert not run.exists()
