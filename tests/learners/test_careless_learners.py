"""Careless plugin learners: each is refused, or harmless; the name of a test says which."""

from __future__ import annotations

import json
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from learners.plugin_runs import SPEC
from typer.testing import CliRunner

from dppipe.cli.app import app
from dppipe.runs.verify import verify_ledger

HEAD = '''\
import dataclasses
import torch
from torch import nn

from dppipe import Learner, Release
from dppipe.privacy.events.mechanisms import exponential, gaussian, laplace

CALLS = 0


class Careless(Learner, kind="careless"):
    """Has a fault."""

    def releases(self, facts, *, scale):
        return [Release(what=what, event=gaussian(scale)) for what in ("first", "second")]

    def module(self, facts):
        module = nn.Module()
        module.mean = nn.Parameter(torch.zeros(facts.input_shape, dtype=torch.float64))
        module.norm = nn.BatchNorm1d(5)
        return module

    def mean(self, job, gate, value=lambda unit: unit.inputs.mean(0)):
        shape = job.facts.input_shape
        return gate.sum_units(gate.next(), value, shape=shape, bound=1.0)

'''


@dataclass(frozen=True)
class Ended:
    """How a run of a careless learner ended."""

    code: int
    said: str
    run: Path

    @property
    def rows(self) -> list[dict[str, Any]]:
        ledger = self.run / "ledger.jsonl"
        lines = ledger.read_text().splitlines() if ledger.exists() else []
        return [json.loads(line) for line in lines]

    @property
    def weights(self) -> dict[str, torch.Tensor]:
        return torch.load(self.run / "checkpoints" / "final.ckpt", weights_only=True)

    def let_out_nothing(self) -> bool:
        """Whether no model was written, and every saved value has a row."""
        values = list((self.run / "released").glob("*"))
        return not (self.run / "checkpoints" / "final.ckpt").exists() and len(values) <= len(
            self.rows
        )


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run a learner with these methods on the small spec."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plugins").mkdir()
    (tmp_path / "spec.yaml").write_text(SPEC.replace("kind: nearest", "kind: careless"))

    def go(methods: str, *changes: str) -> Ended:
        (tmp_path / "plugins" / "careless.py").write_text(
            HEAD + textwrap.indent(textwrap.dedent(methods), "    ")
        )
        words = ["run", "spec.yaml", "--run-dir", "run"]
        for change in changes:
            words += ["--set", change]
        done = CliRunner().invoke(app, words)
        return Ended(done.exit_code, " ".join(done.output.split()), tmp_path / "run")

    return go


@pytest.mark.parametrize("budget", ["budget.epsilon=2", "budget=none"])
def test_reading_records_outside_the_gate_is_refused(run: Any, budget: str) -> None:
    ended = run(
        """
        def fit(self, job, gate):
            job.module.mean.data = torch.stack([unit.inputs[0] for unit in job.records.units()])
            return job.module
        """,
        budget,
    )
    assert ended.code == 3
    assert "records: expected to be read inside a gate's computation" in ended.said
    assert ended.rows == []
    assert ended.let_out_nothing()


def test_reading_all_records_from_inside_a_function_of_one_unit_is_refused(run: Any) -> None:
    ended = run(
        """
        def fit(self, job, gate):
            def centred(unit):
                everybody = [other.inputs.mean(0) for other in job.records.units()]
                return unit.inputs.mean(0) - torch.stack(everybody).mean(0)
            job.module.mean.data = self.mean(job, gate, centred)
            return job.module
        """
    )
    assert ended.code == 2
    assert "expected a function that works on a made-up unit" in ended.said
    assert "got PrivacyRefusal" in ended.said
    assert ended.rows == []


def test_using_a_release_twice_is_refused_and_the_first_use_stays_charged(run: Any) -> None:
    ended = run(
        """
        def fit(self, job, gate):
            release = gate.next()
            for _ in range(2):
                gate.sum_units(release, lambda unit: unit.inputs.mean(0), shape=(5,), bound=1.0)
            return job.module
        """
    )
    assert ended.code == 3
    assert "Each release is charged and used once." in ended.said
    assert len(ended.rows) == 1
    assert ended.let_out_nothing()


@pytest.mark.parametrize("change", ["event=gaussian(1e-3)", "count=0", "what='other'"])
def test_a_changed_release_is_refused(run: Any, change: str) -> None:
    ended = run(
        f"""
        def fit(self, job, gate):
            release = dataclasses.replace(gate.next(), {change})
            gate.sum_units(release, lambda unit: unit.inputs.mean(0), shape=(5,), bound=1.0)
            return job.module
        """
    )
    assert ended.code == 3
    assert "Only facts may be added." in ended.said
    assert ended.rows == []


VALUES = {
    "huge": "torch.full((5,), 1e30)",
    "beyond float32": "torch.full((5,), 1e300, dtype=torch.float64)",
    "NaN": "torch.full((5,), float('nan'))",
    "infinite": "torch.full((5,), float('inf'))",
    "half precision": "torch.full((5,), 6e4, dtype=torch.float16)",
    "integers": "torch.full((5,), 2**62)",
    "complex": "torch.full((5,), 1e30 + 1j)",
    "a list": "[1e30] * 5",
}


@pytest.mark.parametrize("name", VALUES)
def test_unbounded_values_are_harmless_as_the_gate_clips_each_or_counts_it_as_zero(
    run: Any, name: str
) -> None:
    ended = run(
        f"""
        def fit(self, job, gate):
            total = self.mean(job, gate, lambda unit: {VALUES[name]})
            job.module.mean.data = self.mean(job, gate, lambda unit: {VALUES[name]}) + 0 * total
            return job.module
        """,
        "budget=none",
    )
    assert ended.code == 0, ended.said
    # 320 units of norm 1 or 0, without noise.
    norm = float(ended.weights["mean"].norm())
    assert norm == pytest.approx(320.0) or norm == 0.0


def test_a_function_that_adds_up_what_it_has_seen_is_refused_before_anything_is_charged(
    run: Any,
) -> None:
    ended = run(
        """
        def fit(self, job, gate):
            seen = torch.zeros(5)
            def everything_so_far(unit):
                return seen.add_(unit.inputs.mean(0))
            job.module.mean.data = self.mean(job, gate, everything_so_far)
            return job.module
        """
    )
    assert ended.code == 2
    assert "keep nothing between calls" in ended.said
    assert ended.rows == []


def test_changing_a_value_after_its_release_is_harmless_as_the_saved_one_stays(run: Any) -> None:
    ended = run(
        """
        def fit(self, job, gate):
            kept = self.mean(job, gate)
            before = kept.clone()
            kept.mul_(0).add_(7)
            self.mean(job, gate)
            assert (kept == 7).all()
            job.module.mean.data = before
            return job.module
        """
    )
    assert ended.code == 0, ended.said
    saved = torch.load(ended.run / "released" / "0001.pt", weights_only=True)["value"]
    assert torch.equal(saved, ended.weights["mean"])
    assert verify_ledger(ended.run).intact


def test_asking_for_fewer_releases_than_planned_is_refused_and_no_model_is_written(
    run: Any,
) -> None:
    ended = run(
        """
        def fit(self, job, gate):
            job.module.mean.data = self.mean(job, gate)
            return job.module
        """
    )
    assert ended.code == 2
    assert "expected fit to ask for every planned release, got none of 'second'" in ended.said
    assert len(ended.rows) == 1
    assert ended.let_out_nothing()


def test_asking_for_more_releases_than_planned_is_refused(run: Any) -> None:
    ended = run(
        """
        def fit(self, job, gate):
            for _ in range(3):
                self.mean(job, gate)
            return job.module
        """
    )
    assert ended.code == 2
    assert "got None from next(): all of them are done" in ended.said
    assert len(ended.rows) == 2
    assert ended.let_out_nothing()


@pytest.mark.parametrize("changing", ["[gaussian(scale + CALLS)]", "[gaussian(scale)] * CALLS"])
def test_a_list_of_releases_that_follows_a_counter_is_refused(run: Any, changing: str) -> None:
    ended = run(
        f"""
        def releases(self, facts, *, scale):
            global CALLS
            CALLS += 1
            return [Release(what="first", event=event) for event in {changing}]
        """
    )
    assert ended.code == 2
    assert "expected releases() to return equal releases for equal facts and scale" in ended.said
    assert not ended.run.exists()


def test_a_counter_that_moves_late_is_harmless_as_the_plan_holds_what_is_charged(run: Any) -> None:
    ended = run(
        """
        def releases(self, facts, *, scale):
            global CALLS
            CALLS += 1
            return [Release(what="first", event=gaussian(scale + CALLS // 5))]

        def fit(self, job, gate):
            while (release := gate.next()) is not None:
                gate.sum_units(release, lambda unit: unit.inputs.mean(0), shape=(5,), bound=1.0)
            return job.module
        """
    )
    plan = json.loads((ended.run / "plan.json").read_text())
    assert ended.code == 0, ended.said
    assert [row["event"] for row in ended.rows] == [one["event"] for one in plan["releases"]]
    assert ended.rows[-1]["epsilon"] <= 2.0
    assert verify_ledger(ended.run).intact


@pytest.mark.parametrize(
    ("event", "why"),
    [
        ("dp.PoissonSampledDpEvent(0.01, dp.GaussianDpEvent(scale))", "got PoissonSampledDpEvent"),
        ("dp.NoOpDpEvent()", "got NoOpDpEvent"),
        ("dp.SelfComposedDpEvent(dp.GaussianDpEvent(scale), 2)", "got SelfComposedDpEvent"),
        ("gaussian(scale), count=0", "charged at least once, got count 0"),
        ("gaussian(scale), count=True", "charged at least once, got count True"),
    ],
)
def test_a_release_that_claims_to_cost_less_than_it_does_is_refused(
    run: Any, event: str, why: str
) -> None:
    ended = run(
        f"""
        def releases(self, facts, *, scale):
            import dp_accounting as dp
            more = Release(what="more", event={event})
            return [Release(what="first", event=gaussian(scale)), more]
        """
    )
    assert ended.code == 3
    assert why in ended.said
    assert not ended.run.exists()


@pytest.mark.parametrize("what", ["step", "statistics", ""])
def test_a_release_with_a_name_that_means_something_else_is_refused(run: Any, what: str) -> None:
    ended = run(
        f"""
        def releases(self, facts, *, scale):
            return [Release(what={what!r}, event=gaussian(scale))]
        """
    )
    assert ended.code == 3
    assert "expected a word for what is released" in ended.said


def test_calling_the_gate_from_inside_a_function_is_refused(run: Any) -> None:
    ended = run(
        """
        def fit(self, job, gate):
            job.module.mean.data = self.mean(job, gate, lambda unit: self.mean(job, gate))
            return job.module
        """
    )
    assert ended.code == 2
    assert "expected no call from inside a function of one unit" in ended.said
    assert ended.rows == []


@pytest.mark.parametrize("name", ["add_noise", "select", "perturb", "covered", "ledger"])
def test_a_method_of_the_full_gate_is_refused(run: Any, name: str) -> None:
    ended = run(f"def fit(self, job, gate): gate.{name}")
    assert ended.code == 2
    assert f"expected next, sum_units or select_units, got {name}" in ended.said


@pytest.mark.parametrize(
    "call",
    [
        "gate.select_units(gate.next(), lambda unit: torch.ones(2), candidates=2, bound=1.0)",
        "gate.sum_units(gate.next(), lambda unit: torch.ones(2), shape=(2,), bound=0.0)",
        "gate.sum_units(gate.next(), lambda unit: torch.ones(3), shape=(2,), bound=1.0)",
        "gate.sum_units(gate.next(), lambda unit: unit.nothing, shape=(2,), bound=1.0)",
    ],
)
def test_a_call_that_cannot_work_is_refused_before_anything_is_charged(run: Any, call: str) -> None:
    ended = run(f"def fit(self, job, gate): {call}")
    assert ended.code in (2, 3)
    assert "expected" in ended.said
    assert ended.rows == []


def test_what_a_function_leaves_in_the_module_is_harmless_as_it_is_undone(run: Any) -> None:
    ended = run(
        """
        def fit(self, job, gate):
            def looked_at(unit):
                job.module.norm(unit.inputs.repeat(2, 1))
                return unit.inputs.mean(0)
            for _ in range(2):
                job.module.mean.data = self.mean(job, gate, looked_at)
            return job.module
        """
    )
    assert ended.code == 0, ended.said
    assert ended.weights["norm.running_mean"].tolist() == [0.0] * 5
    assert int(ended.weights["norm.num_batches_tracked"]) == 0


@pytest.mark.parametrize(
    "telling",
    [
        'print("seen")',
        'import sys; sys.stderr.write("seen ")',
        'import logging; logging.getLogger("own").error("seen")',
    ],
    ids=["print", "stderr", "log"],
)
def test_what_a_function_tells_of_records_is_harmless_as_only_made_up_ones_are_shown(
    run: Any, caplog: pytest.LogCaptureFixture, telling: str
) -> None:
    ended = run(
        f"""
        def fit(self, job, gate):
            def shown(unit):
                {telling}
                return unit.inputs.mean(0)
            for _ in range(2):
                self.mean(job, gate, shown)
            return job.module
        """
    )
    assert ended.code == 0, ended.said
    assert f"{ended.said} {caplog.messages}".count("seen") == 2 * 3


def test_a_record_that_breaks_the_function_is_harmless_as_it_counts_as_zero(run: Any) -> None:
    ended = run(
        """
        def fit(self, job, gate):
            def picky(unit):
                if len(unit.inputs) == 1 and unit.inputs[0, 0] > 0:
                    raise ValueError(f"patient {unit.inputs}")
                return torch.ones(5)
            for _ in range(2):
                job.module.mean.data = self.mean(job, gate, picky)
            return job.module
        """,
        "budget=none",
    )
    assert ended.code == 0, ended.said
    assert "patient" not in ended.said
    assert 0 < float(ended.weights["mean"].norm()) < 320


def test_a_fit_that_returns_no_module_is_refused(run: Any) -> None:
    ended = run("def fit(self, job, gate): return [self.mean(job, gate) for _ in range(2)]")
    assert ended.code == 2
    assert "expected fit to return a module, got list" in ended.said
    assert ended.let_out_nothing()
