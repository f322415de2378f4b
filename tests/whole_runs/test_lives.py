"""Real runs of many features at once, in one life and in several, on one process and on two.

Draws depend on the step alone and noise on its scale alone, so that what a run does in several lives can be compared
with what it does in one: whatever a checkpoint has to hold, and whatever processes have to agree on, shows in the files.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from whole_runs.checks import check_finished
from whole_runs.files import Files
from whole_runs.kinds import KINDS, STOP, write_inputs
from whole_runs.living import Change, command, kill_before, signal_after, without_chance
from whole_runs.plain import expected_metrics
from whole_runs.reference import expected_weights

from dppipe.budgets.store import Store

pytestmark = pytest.mark.sampled(2)

OF_A_LIFE = ("run_dir", "seconds", "begun", "ended", "starts", "scope")
"""What a summary says of the lives of a run, which may differ."""
SCORED = [
    "adapting bounds, momentum, a mean",
    "users, statistics of a table",
    "secret number of records, growing batches",
    "statistics of images, a global threshold",
    "regression until the budget ends",
]
"""Each task, each way of splitting, and inputs that are scaled by released values."""
Run = Callable[..., Files]


@pytest.fixture
def begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Start a run of a kind; its processes end with these codes."""
    monkeypatch.chdir(tmp_path)
    write_inputs(tmp_path)
    scope = ["--epsilon", "500", "--delta", "1e-3", "--like", "spec.yaml"]
    made: list[str] = []

    def go(
        kind: str, path: str, *changes: Change, codes: Sequence[int] = (0,), **options: Any
    ) -> None:
        if KINDS[kind].scope is not None and not made:
            made.append("scope")
            ended = command("budget", "create", "clinic", *scope, plugins=False)
            assert ended.codes == (0,), ended
        sets = [word for change in KINDS[kind].changes for word in ("--set", change)]
        if len(codes) > 1:
            sets += ["--set", f"performance={{devices: {len(codes)}, accelerator: cpu}}"]
        words = ["run", "spec.yaml", "--run-dir", path, *sets]
        ended = command(*words, changes=[without_chance, *changes], ranks=len(codes), **options)
        assert ended.codes == tuple(codes), ended

    return go


def resume(path: str, *changes: Change, codes: Sequence[int] = (0,)) -> None:
    """Resume a run; its processes end with these codes."""
    ended = command("resume", path, changes=[without_chance, *changes], ranks=len(codes))
    assert ended.codes == tuple(codes), ended


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_in_several_lives_leaves_what_it_leaves_in_one(begin: Run, kind: str) -> None:
    begin(kind, "one")
    begin(kind, "several", signal_after(STOP), codes=(143,))
    check_interrupted(Path("several"), steps=STOP)
    resume("several")
    one, several = Files(Path("one")), Files(Path("several"))
    check_finished(one, starts=1)
    check_finished(several, starts=2)
    check_equal_files(one, several)
    check_scope(one, several)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "no budget"])
def test_a_run_that_is_killed_twice_tells_one_story(begin: Run, kind: str) -> None:
    begin(kind, "run", kill_before("step", step=5), codes=(-signal.SIGKILL,))
    before = Path("run/ledger.jsonl").read_bytes()
    tear(Path("run/ledger.jsonl"))
    resume("run", kill_before("step", step=7), codes=(-signal.SIGKILL,))
    kept = torch.load("run/checkpoints/last.ckpt", weights_only=True)
    resume("run")
    run = Files(Path("run"))
    looks = kept["callbacks"]["DPCallback"]["validations"] + bool(run.summary["metrics"])
    assert run.summary["validations"] >= looks
    assert Path("run/ledger.jsonl").read_bytes().startswith(before)
    check_finished(run, starts=3, killed=True)
    check_scope(run)


ON_TWO_PROCESSES = (
    "adapting bounds, momentum, a mean",
    "users, statistics of a table",
    "secret number of records, growing batches",
    "regression until the budget ends",
)
"""The kinds that run on two processes by default; the others are slow tests."""


@pytest.mark.parametrize(
    "kind",
    [
        each if each in ON_TWO_PROCESSES else pytest.param(each, marks=pytest.mark.slow)
        for each in KINDS
    ],
)
def test_two_processes_leave_what_one_leaves(begin: Run, kind: str) -> None:
    begin(kind, "one")
    begin(kind, "two", codes=(130, 0), victim=signal_after(STOP))
    resume("two", codes=(0, 0))
    one, two = Files(Path("one")), Files(Path("two"))
    check_finished(two, starts=2)
    numbers = [without_chain(run) for run in (one, two)]
    assert numbers[0].keys() == numbers[1].keys()
    for name, value in numbers[0].items():
        near = pytest.approx(value, rel=1e-5) if isinstance(value, float) else value
        assert numbers[1][name] == near, name
    assert two.summary["metrics"] == pytest.approx(one.summary["metrics"], abs=1e-4)
    torch.testing.assert_close(two.weights, one.weights, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", SCORED)
def test_scores_of_both_holdouts_are_those_of_the_final_model_by_plain_formulas(
    begin: Run, kind: str
) -> None:
    begin(kind, "run")
    scored = command("evaluate", "run")
    assert scored.codes == (0,), scored
    run = Files(Path("run"))
    marked = "" if run.plan["holdout"] == "public" else "nonprivate/"
    for part, found in (("val", run.summary["metrics"]), ("test", run.summary["test"])):
        expected = expected_metrics(run, part)
        names = {f"{marked}{part}/{name}": value for name, value in expected.items()}
        assert found == pytest.approx(names, abs=1e-5), part
    assert run.summary["evaluations"] == run.statement["test_looks"] == 1


@pytest.mark.parametrize(
    "kind", ["secret number of records, growing batches", "shuffled epochs, falling bounds"]
)
def test_the_final_weights_are_those_of_plain_training_one_example_at_a_time(
    begin: Run, kind: str
) -> None:
    begin(kind, "run")
    run = Files(Path("run"))
    torch.testing.assert_close(run.weights, expected_weights(run), rtol=1e-4, atol=1e-5)


def check_interrupted(path: Path, *, steps: int) -> None:
    """What an interrupted run has written says where it stands, and claims its whole plan."""
    summary = json.loads((path / "summary.json").read_text())
    plan = json.loads((path / "plan.json").read_text())
    assert (summary["status"], summary["steps"]) == ("interrupted", steps)
    rows = [json.loads(line) for line in (path / "ledger.jsonl").read_text().splitlines()]
    assert not (path / "checkpoints" / "final.ckpt").exists()
    assert summary["epsilon"] == plan["epsilon"]
    if plan["private"]:
        assert summary["epsilon_spent"] == rows[-1]["epsilon"]
        assert [row["step"] for row in rows if "step" in row] == list(range(1, steps + 1))


def check_equal_files(one: Files, several: Files) -> None:
    """Compare all that two runs of one spec have left, but for what says when and where they ran."""
    ledgers = [(run.path / "ledger.jsonl").read_bytes() for run in (one, several)]
    assert ledgers[0] == ledgers[1]
    assert one.plan == several.plan
    torch.testing.assert_close(several.weights, one.weights, rtol=0, atol=0)
    assert one.state.keys() == several.state.keys()
    for name in one.state.keys() - {"run"}:
        assert_equal(one.state[name], several.state[name])
    for name in ("state_dict", "optimizer_states", "lr_schedulers", "global_step"):
        assert_equal(several.checkpoint[name], one.checkpoint[name])
    assert several.curves == one.curves
    summaries = [
        {name: value for name, value in run.summary.items() if name not in OF_A_LIFE}
        for run in (one, several)
    ]
    assert summaries[0] == summaries[1]
    for name in set(one.statement) - {*OF_A_LIFE, "scope_terms", "not_covered"}:
        assert one.statement[name] == several.statement[name], name


def assert_equal(one: Any, other: Any) -> None:
    """Compare two trees of tensors and values, bit by bit."""
    assert type(one) is type(other)
    if isinstance(one, torch.Tensor):
        assert torch.equal(one, other)
    elif isinstance(one, dict):
        assert one.keys() == other.keys()
        for name, value in one.items():
            assert_equal(value, other[name])
    elif isinstance(one, list | tuple):
        assert len(one) == len(other)
        for mine, its in zip(one, other, strict=True):
            assert_equal(mine, its)
    else:
        assert one == other


def check_scope(*runs: Files) -> None:
    """A scope counts each of its runs once, at what the whole plan costs."""
    last = runs[-1]
    if last.plan["scope"] is None:
        return
    assert last.summary["scope"]["runs"] == last.statement["scope_terms"]["runs"] == len(runs)
    settled = Store(make=False).status(last.plan["scope"]).runs
    assert [entry.state for entry in settled] == ["settled"] * len(runs)
    for run, entry in zip(runs, settled, strict=True):
        assert Path(entry.run_dir).name == run.path.name
        assert (entry.epsilon, entry.delta) == (run.plan["epsilon"], run.plan["delta"])
        held = Store(make=False).run_steps(entry.run_id)
        assert sum(count for _, count in held) == run.summary["charged"]


def tear(ledger: Path) -> None:
    """Leave the start of a further row, as a power cut may."""
    with ledger.open("ab") as file:
        file.write(b'{"row":')


def without_chain(run: Files) -> dict[str, Any]:
    """Return all fields of all rows without the hashes, which name the plan and so the number of processes."""
    found: dict[str, Any] = {}
    for row in run.rows:
        for name, value in row.items():
            if name not in ("prev", "hash"):
                found[f"{row['row']}.{name}"] = value if isinstance(value, float) else str(value)
    return found
