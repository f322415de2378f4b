"""Earlier runs in a plan: how every accountant counts them, and what can't be counted together."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from dp_accounting import GaussianDpEvent, LaplaceDpEvent, PoissonSampledDpEvent

from dppipe.clipping.flat import Flat
from dppipe.clipping.jl import Jl
from dppipe.errors import PrivacyRefusal
from dppipe.noise.base import NoiseSchedule
from dppipe.noise.constant import Constant
from dppipe.planning.earlier.finished_runs import FinishedRun, FinishedRuns, finished_runs
from dppipe.planning.earlier.runs import ChargedEvent, Earlier, EarlierRun, merged
from dppipe.planning.earlier.stored_tensors import tensor_hash, tensor_hashes
from dppipe.planning.privacy_plan import PrivateParts, plan_privacy
from dppipe.planning.step_plan import StepPlan
from dppipe.privacy.accountants.base import Accountant
from dppipe.privacy.budget import Budget
from dppipe.privacy.events.plain import event_to_data
from dppipe.sampling.poisson import Poisson
from dppipe.spec.kinds.families import FAMILIES
from dppipe.spec.kinds.registry import load_built_in

DELTA = 1e-5
EARLIER = PoissonSampledDpEvent(0.02, GaussianDpEvent(1.5))
OWN = PoissonSampledDpEvent(0.05, GaussianDpEvent(2.0))


def earlier_run(event: Any = EARLIER, count: int = 100, **changes: Any) -> EarlierRun:
    events = (ChargedEvent(event=event_to_data(event), count=count),)
    given = {
        "run": "a",
        "run_dir": "runs/a",
        "ledger_head": "00",
        "relation": "zero_out",
        "unit": "example",
        "events": events,
    }
    return EarlierRun(**given | changes)


def planned(
    *runs: EarlierRun,
    records: Any = "same",
    accountant: str = "rdp",
    clipping: Any = None,
    **budget: Any,
) -> StepPlan:
    chosen = load_built_in(FAMILIES["accountant"], accountant)()
    given = Budget(**{"epsilon": 500.0, "delta": DELTA} | budget)
    earlier = Earlier(records=records, runs=runs) if runs else None
    noise = Constant(noise_multiplier=2.0)
    parts = PrivateParts(
        Poisson(sample_rate=0.05), clipping or Flat(), noise, chosen, given, earlier=earlier
    )
    return plan_privacy(parts, name="later", records=2000, steps=60)


def accountant(kind: str) -> Accountant:
    made = load_built_in(FAMILIES["accountant"], kind)()
    assert isinstance(made, Accountant)
    return made


@pytest.mark.parametrize("kind", ["pld", "rdp", "tcdp", "basic", "advanced"])
def test_the_plans_epsilon_is_what_the_accountant_says_of_both_runs_events(kind: str) -> None:
    plan = planned(earlier_run(), accountant=kind)
    both = accountant(kind).compose([(EARLIER, 100), (OWN, 60)], relation="zero_out").epsilon(DELTA)
    before = accountant(kind).compose([(EARLIER, 100)], relation="zero_out").epsilon(DELTA)
    assert plan.epsilon == pytest.approx(both, rel=1e-9)
    assert plan.epsilon_after(0) == pytest.approx(before, rel=1e-9)
    assert plan.epsilon_after(30) > before
    assert StepPlan.from_json(plan.to_json()) == plan


@pytest.mark.parametrize("kind", ["pld", "rdp", "basic"])
@pytest.mark.parametrize("count", [1, 400], ids=["ours is larger", "theirs is larger"])
def test_of_disjoint_records_the_larger_curve_counts_at_every_delta(kind: str, count: int) -> None:
    plan = planned(earlier_run(count=count), records="disjoint", accountant=kind)
    theirs = accountant(kind).compose([(EARLIER, count)], relation="zero_out")
    ours = accountant(kind).compose([(OWN, 60)], relation="zero_out")
    assert (theirs.epsilon(DELTA) > ours.epsilon(DELTA)) == (count > 1)
    assert plan.epsilon == pytest.approx(max(theirs.epsilon(DELTA), ours.epsilon(DELTA)), rel=1e-9)
    for delta, epsilon in zip(
        plan.whole_curve["deltas"], plan.whole_curve["epsilons"], strict=True
    ):
        assert epsilon >= max(theirs.epsilon(delta), ours.epsilon(delta))
    assert all(point.epsilon >= theirs.epsilon(DELTA) * (1 - 1e-9) for point in plan.curve)


def test_without_earlier_runs_a_plan_is_as_it_was() -> None:
    alone = accountant("rdp").compose([(OWN, 60)], relation="zero_out").epsilon(DELTA)
    assert planned().epsilon == pytest.approx(alone, rel=1e-12)
    assert planned().epsilon_after(0) == 0


def test_what_both_runs_set_aside_of_delta_adds_up() -> None:
    plan = planned(earlier_run(failure_delta=2e-6), clipping=Jl(delta=1e-6))
    both = accountant("rdp").compose([(EARLIER, 100), (OWN, 60)], relation="zero_out")
    assert plan.failure_delta == pytest.approx(1e-6)
    assert plan.epsilon == pytest.approx(both.epsilon(DELTA - 3e-6), rel=1e-9)


class Follows(NoiseSchedule):
    """Noise that follows what was released."""

    adaptive = True

    def next_multiplier(self, history: Any) -> float:
        return 1.0


@pytest.mark.parametrize(
    ("run", "budget", "message"),
    [
        (
            earlier_run(relation="replace_one"),
            {},
            r"budget\.relation: expected replace_one, .* got zero_out",
        ),
        (earlier_run(unit="user"), {}, r"budget\.unit: expected user, .* got example"),
        (
            earlier_run(scope="one"),
            {"scope": "two"},
            r"budget\.scope: expected the weights of runs/a .* got one",
        ),
        (earlier_run(), {"scope": "two"}, r"budget\.scope: .* got no scope"),
        (
            earlier_run(count=10**6),
            {"epsilon": 2.0},
            r"model\.pretrained: expected weights that cost less than epsilon 2,",
        ),
    ],
    ids=["relation", "unit", "other scope", "no scope", "spent"],
)
def test_earlier_runs_that_do_not_add_up_are_refused_by_name(
    run: EarlierRun, budget: Any, message: str
) -> None:
    with pytest.raises(PrivacyRefusal, match=message):
        planned(run, **budget)


def test_events_that_the_accountant_can_not_bound_are_refused_with_its_name() -> None:
    sampled = PoissonSampledDpEvent(0.1, LaplaceDpEvent(1.0))
    with pytest.raises(
        PrivacyRefusal, match=r"accountant: expected one that can bound runs/a, .* got rdp: "
    ):
        planned(earlier_run(sampled))


def test_noise_that_follows_releases_is_refused_beside_earlier_runs() -> None:
    budget, earlier = (
        Budget(epsilon=8.0, delta=DELTA),
        Earlier(records="same", runs=(earlier_run(),)),
    )
    parts = PrivateParts(
        Poisson(sample_rate=0.05),
        Flat(),
        Follows(noise_multiplier=1.0),
        accountant("rdp"),
        budget,
        earlier=earlier,
    )
    with pytest.raises(
        PrivacyRefusal, match="noise: expected a schedule that is fixed in the plan"
    ):
        plan_privacy(parts, name="later", records=2000, steps=60)


def test_a_run_that_is_found_twice_counts_once_with_the_most_that_is_known_of_it() -> None:
    found = merged(
        [earlier_run(count=5), earlier_run(run="b"), earlier_run(count=9), earlier_run(count=7)]
    )
    assert [(run.run, run.charged) for run in found] == [("a", 9), ("b", 100)]


# The file of finished runs.


def test_lines_of_several_writers_stay_whole_and_a_torn_one_stays_alone(tmp_path: Path) -> None:
    runs = FinishedRuns(tmp_path / "new" / "finished_runs.jsonl")
    (tmp_path / "line.json").write_text(
        FinishedRun(hashes=("h",), runs=(earlier_run(run_dir="x" * 5000),)).model_dump_json()
    )
    words = [sys.executable, "-c", WRITER, str(tmp_path / "line.json"), str(runs.path)]
    writers = [subprocess.Popen(words) for _ in range(4)]
    assert [writer.wait(60) for writer in writers] == [0, 0, 0, 0]
    assert len(runs.find(["h"], strict=True)) == 80
    with runs.path.open("ab") as file:
        file.write(b'{"hashes": ["h"')
    runs.add(FinishedRun(hashes=("h",), runs=(earlier_run(run="last"),)))
    assert len(runs.find(["h"], strict=False)) == 81
    with pytest.raises(
        PrivacyRefusal, match=r"finished_runs\.jsonl:81: expected the line of a finished run"
    ):
        runs.find(["h"], strict=True)
    assert runs.find([], strict=True) == runs.find(["other"], strict=False) == []


WRITER = """
import sys
from pathlib import Path
from dppipe.planning.earlier.finished_runs import FinishedRun, FinishedRuns

line = FinishedRun.model_validate_json(Path(sys.argv[1]).read_text())
for _ in range(20):
    FinishedRuns(Path(sys.argv[2])).add(line)
"""


@pytest.mark.parametrize(
    ("store", "place"),
    [
        (None, ".dppipe/finished_runs.jsonl"),
        ("elsewhere/budgets.db", "elsewhere/finished_runs.jsonl"),
        ("postgresql://user@host/budgets", ".dppipe/finished_runs.jsonl"),
    ],
)
def test_the_file_stands_beside_the_local_store(
    monkeypatch: pytest.MonkeyPatch, store: str | None, place: str
) -> None:
    monkeypatch.delenv("DPPIPE_STORE")
    if store is not None:
        monkeypatch.setenv("DPPIPE_STORE", store)
    assert finished_runs().path == Path(place)


# Tensors in files.


def test_tensors_are_known_by_their_bytes_in_every_format(tmp_path: Path) -> None:
    import torch
    from safetensors.torch import save_file

    torch.manual_seed(0)
    weights = {
        "a": torch.randn(7, 3),
        "b": torch.randn(5).double(),
        "c": torch.randn(9).bfloat16(),
        "zeros": torch.zeros(100),
    }
    expected = {
        tensor_hash(value.view(torch.uint8).numpy().tobytes())
        for name, value in weights.items()
        if name != "zeros"
    }
    torch.save(weights, tmp_path / "a.pt")
    torch.save(
        {"state_dict": {f"net.{name}": value for name, value in weights.items()}},
        tmp_path / "b.ckpt",
    )
    save_file(weights, tmp_path / "c.safetensors", metadata={"made": "here"})
    for name in ("a.pt", "b.ckpt", "c.safetensors"):
        assert tensor_hashes(tmp_path / name) == expected


@pytest.mark.parametrize(
    "data", [b"", b"\0" * 8, b"\0" * 4096, b"\x00\x00\x80\x3f" * 5, b"\x01\x02\x03\x04" * 3000]
)
def test_plain_tensors_have_no_hash(data: bytes) -> None:
    assert tensor_hash(data) is None
    assert tensor_hash(data + b"\x01\x02\x03\x04\x05\x06\x07\x08\x09") is not None


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"nothing",
        b"\xff" * 100,
        b"\x02\0\0\0\0\0\0\0[]",
        b"PK\x03\x04 broken",
        b'\x0c\0\0\0\0\0\0\0{"a": "bad"}',
    ],
)
def test_files_that_are_no_weights_have_no_tensors(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "file").write_bytes(data)
    assert tensor_hashes(tmp_path / "file") == tensor_hashes(tmp_path / "none") == frozenset()
