"""`dppipe ledger verify` names each fault that it knows.

Each is shown alone, by a real run that is damaged in just that way.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import dp_accounting
import pytest
from private_steps import altered, step_charge
from small_runs import SPEC
from typer.testing import CliRunner

import dppipe
from dppipe.cli.app import app
from dppipe.clipping import Flat
from dppipe.noise import Constant
from dppipe.planning.privacy_plan import PrivateParts, plan_privacy
from dppipe.planning.step_plan import StepPlan
from dppipe.privacy.accountants import Basic, Pld, Rdp
from dppipe.privacy.accountants.base import Accountant
from dppipe.privacy.budget import Budget, Relation
from dppipe.privacy.charges import Charge
from dppipe.privacy.ledger_reading import LedgerRows, read_ledger
from dppipe.privacy.ledger_rows import digest, encode_row
from dppipe.runs.verification.row_faults import row_faults
from dppipe.runs.verify import verify_ledger
from dppipe.sampling import (
    BallsInBins,
    FullBatch,
    Poisson,
    Sampler,
    Shuffle,
    TruncatedPoisson,
    User,
    WithoutReplacement,
    WithReplacement,
)
from dppipe.spec.kinds.registry import Registry

Rows = list[Charge]
ROOT = Path(dppipe.__file__).parents[1]
FALLING = "noise={kind: budget_aware, noise_multiplier: 10.0, patience: 1, decay: 0.9}"
CHANGES: dict[str, list[str]] = {
    "plain": ["train.steps=6"],
    "statistics": [
        "train.steps=3",
        "data.normalize={kind: private, noise_multiplier: 10, lower: -4, upper: 4}",
    ],
    "filter": [
        "sampler=full_batch",
        "accountant=zcdp",
        "budget={epsilon: 2.0, delta: 1e-5}",
        FALLING,
        "train.steps=500",
    ],
}


def verify(run: Path) -> tuple[int, list[str]]:
    """Run the command; return its exit code and the faults that it names."""
    done = CliRunner().invoke(app, ["ledger", "verify", str(run)])
    assert "Traceback" not in done.output
    return done.exit_code, [line for line in done.stderr.splitlines() if line]


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make one run of each kind."""
    folder = tmp_path_factory.mktemp("originals")
    (folder / "spec.yaml").write_text(SPEC)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        for name, changes in CHANGES.items():
            words = ["run", str(folder / "spec.yaml"), "--run-dir", str(folder / name)]
            for change in changes:
                words += ["--set", change]
            done = CliRunner().invoke(app, words)
            assert done.exit_code == 0, done.output
    return folder


@pytest.fixture
def copy(originals: Path, tmp_path: Path) -> Callable[[str], Path]:
    """Copy one of the runs."""
    return lambda name: Path(shutil.copytree(originals / name, tmp_path / name))


def write_rows(run: Path, change: Callable[[Rows], Rows]) -> None:
    """Write changed rows with a chain of their own, and a summary that fits them."""
    plan = (run / "plan.json").read_bytes()
    rows = change(list(read_ledger(run / "ledger.jsonl", plan=plan).charges))
    head = digest(plan)
    lines = []
    for number, charge in enumerate(rows, start=1):
        lines.append(encode_row(charge, row=number, prev=head))
        head = digest(lines[-1])
    (run / "ledger.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))
    spent = max(charge.epsilon for charge in rows)
    counted = sum(charge.count for charge in rows)
    change_summary(run, ledger_head=head, charged=counted, epsilon_spent=spent)


def change_summary(run: Path, **values: object) -> None:
    summary = json.loads((run / "summary.json").read_text())
    (run / "summary.json").write_text(json.dumps(summary | values))


def change_ledger(run: Path, change: Callable[[bytes], bytes]) -> None:
    ledger = run / "ledger.jsonl"
    ledger.write_bytes(change(ledger.read_bytes()))


def without_line(data: bytes, number: int) -> bytes:
    lines = data.splitlines(keepends=True)
    return b"".join(lines[: number - 1] + lines[number:])


def torn(run: Path) -> None:
    """Cut the last row off in its middle; the summary of a torn run names the row before."""
    change_ledger(run, lambda data: data[:-200])
    found = read_ledger(run / "ledger.jsonl", plan=(run / "plan.json").read_bytes())
    change_summary(run, ledger_head=found.head)


def sampled(noise_multiplier: float, rate: float) -> dp_accounting.DpEvent:
    return Poisson(sample_rate=rate).event(
        dp_accounting.GaussianDpEvent(noise_multiplier), rate=rate
    )


def with_rate(rate: float) -> Callable[[Charge], Charge]:
    return lambda charge: altered(charge, sample_rate=rate, event=sampled(1.0, rate))


CORRUPT: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "no row": (lambda data: data + b"[]\n", r":7: .*it is not a row of a ledger"),
    "a row taken out": (lambda data: without_line(data, 3), r":3: .*a row was taken out or put in"),
    "changed content": (
        lambda data: data.replace(b'"step":5', b'"step":6'),
        r":5: .*its content is not what its hash names",
    ),
    "an end that can't be torn": (
        lambda data: data + b'{"row":8',
        r":7: .*it is not a row of a ledger",
    ),
}


@pytest.mark.parametrize("damage", CORRUPT)
def test_verify_names_a_ledger_whose_bytes_were_changed(
    copy: Callable[[str], Path], damage: str
) -> None:
    run = copy("plain")
    change, fault = CORRUPT[damage]
    change_ledger(run, change)
    only(run, fault)


def test_verify_names_a_plan_that_was_changed(copy: Callable[[str], Path]) -> None:
    run = copy("plain")
    (run / "plan.json").write_bytes((run / "plan.json").read_bytes() + b" ")
    only(run, r":1: .*a row was taken out or put in")


ENDS: dict[str, tuple[Callable[[Path], None], str]] = {
    "torn": (torn, r":6: expected a whole row, got a torn one"),
    "no newline": (
        lambda run: change_ledger(run, lambda data: data[:-1]),
        r":6: expected a newline after the row",
    ),
    "another head": (
        lambda run: change_summary(run, ledger_head="0" * 64),
        r"expected the head that the summary names",
    ),
    "another number": (
        lambda run: change_summary(run, charged=5),
        r"expected 5 charges, as the summary says, got 6",
    ),
}


@pytest.mark.parametrize("damage", ENDS)
def test_verify_names_an_end_that_is_not_the_runs(copy: Callable[[str], Path], damage: str) -> None:
    run = copy("plain")
    change, fault = ENDS[damage]
    change(run)
    only(run, fault)


def each(change: Callable[[Charge], Charge]) -> Callable[[Rows], Rows]:
    """Change every row in the same way."""
    return lambda rows: [change(charge) for charge in rows]


def at(number: int, change: Callable[[Charge], Charge]) -> Callable[[Rows], Rows]:
    """Change the row of one number alone."""
    return lambda rows: [*rows[: number - 1], change(rows[number - 1]), *rows[number:]]


def with_z(z: float) -> Callable[[Charge], Charge]:
    return lambda charge: altered(charge, noise_multiplier=z, event=sampled(z, charge.sample_rate))


def set_to(**values: object) -> Callable[[Charge], Charge]:
    return lambda charge: altered(charge, **values)


def one_more(rows: Rows) -> Rows:
    """Repeat the last row at the next step, with a claim that covers it."""
    return [*rows, altered(rows[-1], step=rows[-1].step + 1, epsilon=rows[-1].epsilon * 2)]


def two_more(rows: Rows) -> Rows:
    """Repeat it twice: the step that a filter refused at the end may have had less noise."""
    return one_more(one_more(rows))


def lower_claim(charge: Charge) -> Charge:
    return altered(charge, epsilon=charge.epsilon * 0.9)


UNPLANNED: dict[str, tuple[str, Callable[[Rows], Rows], list[str]]] = {
    "relation": (
        "plain",
        each(set_to(relation="replace_one")),
        [r":1: relation: expected zero_out"],
    ),
    "one relation": ("plain", at(4, set_to(relation="replace_one")), [r":4: relation: "]),
    "unit": ("plain", each(set_to(unit="user")), [r":1: unit: expected example"]),
    "one unit": ("plain", at(6, set_to(unit="user")), [r":6: unit: expected example"]),
    "sampler": ("plain", at(3, set_to(sampler="shuffle")), [r":3: sampler: expected poisson"]),
    "mechanism": (
        "plain",
        at(2, set_to(mechanism="laplace")),
        [r":2: mechanism: expected gaussian"],
    ),
    "multiplier": (
        "plain",
        at(5, with_z(1.1)),
        [r":5: noise_multiplier: expected 1.0", r":5: event: "],
    ),
    "multiplier beside the event": (
        "plain",
        at(5, set_to(noise_multiplier=1.1)),
        [r":5: noise_multiplier: expected 1.0"],
    ),
    "rate": ("plain", at(5, with_rate(0.04)), [r":5: sample_rate: expected 0.05", r":5: event: "]),
    "rate beside the event": (
        "plain",
        at(5, set_to(sample_rate=0.04)),
        [r":5: sample_rate: expected 0.05"],
    ),
    "cheaper event": (
        "plain",
        at(1, set_to(event=sampled(9.0, 0.05))),
        [r":1: event: expected Poisson"],
    ),
    "event of no step": (
        "plain",
        at(1, set_to(event=dp_accounting.NoOpDpEvent())),
        [r":1: event: "],
    ),
    "uncharged": ("plain", at(2, set_to(count=0)), [r":2: count: expected 1"]),
    "a step twice": ("plain", at(4, set_to(step=3)), [r":4: step: expected one from 4 to 6"]),
    "a step too many": ("plain", one_more, [r":7: step: expected one from 7 to 6"]),
    "a step of number 0": ("plain", at(1, set_to(step=0)), [r":1: step: expected one from 1"]),
    "statistics that weren't planned": (
        "plain",
        lambda rows: [replace(rows[0], what="statistics"), *rows[1:]],
        [r":1: what: expected a step, as the plan says, got statistics"],
    ),
    "statistics among the steps": (
        "statistics",
        lambda rows: [*rows[:2], replace(rows[0], epsilon=rows[1].epsilon), *rows[2:]],
        [r":3: what: expected a step, as the plan says, got statistics"],
    ),
    "statistics not charged": (
        "statistics",
        lambda rows: rows[1:],
        [r":1: what: expected statistics, as the plan says, got step"],
    ),
    "another release than statistics": (
        "statistics",
        at(1, set_to(what="vote")),
        [r":1: what: expected statistics, as the plan says, got vote"],
    ),
    "statistics with less noise": (
        "statistics",
        at(1, set_to(noise_multiplier=9.0)),
        [r":1: facts.noise_multiplier: expected 10.0"],
    ),
    "statistics with a cheaper event": (
        "statistics",
        at(1, set_to(event=dp_accounting.GaussianDpEvent(90.0))),
        [r":1: event: expected GaussianDpEvent\(noise_multiplier=10.0\)"],
    ),
    "statistics of another name": (
        "statistics",
        at(1, set_to(statistics="histograms")),
        [r":1: facts.statistics: expected "],
    ),
    "statistics for nothing": ("statistics", at(1, set_to(count=0)), [r":1: count: expected 1"]),
    "statistics under another relation": (
        "statistics",
        at(1, set_to(relation="replace_one")),
        [r":1: relation: expected zero_out"],
    ),
    "statistics of another unit": (
        "statistics",
        at(1, set_to(unit="user")),
        [r":1: unit: expected example"],
    ),
    "claims that fall": (
        "plain",
        at(6, lower_claim),
        [r":6: expected epsilon of at least", r":6: .*rows cost"],
    ),
    "claims below the cost": (
        "plain",
        each(lower_claim),
        [rf":{n}: .*as the rows cost" for n in range(1, 7)],
    ),
    "a step that the filter refuses": (
        "filter",
        two_more,
        [r":\d+: expected a step that the zcdp filter admits"],
    ),
}


@pytest.mark.parametrize("damage", UNPLANNED)
def test_verify_names_rows_that_are_not_the_plans(copy: Callable[[str], Path], damage: str) -> None:
    kind, change, faults = UNPLANNED[damage]
    run = copy(kind)
    write_rows(run, change)
    only(run, *faults)


def only(run: Path, *patterns: str) -> None:
    """Expect exactly these faults, in this order, and the exit code of a damaged ledger."""
    code, faults = verify(run)
    assert code == 4
    assert len(faults) == len(patterns), faults
    for fault, pattern in zip(faults, patterns, strict=True):
        assert fault.startswith(str(run / "ledger.jsonl")), fault
        assert re.search(pattern, fault), fault


@pytest.mark.parametrize("kind", CHANGES)
def test_verify_finds_nothing_in_an_undamaged_run_or_one_with_a_new_chain(
    copy: Callable[[str], Path], kind: str
) -> None:
    run = copy(kind)
    assert verify(run) == (0, [])
    write_rows(run, lambda rows: rows)
    assert verify(run) == (0, [])


@pytest.mark.parametrize("name", ["advantage", "mu"])
def test_verify_names_a_plan_that_leaves_too_little_to_attackers(
    copy: Callable[[str], Path], name: str
) -> None:
    run = copy("plain")
    plan = json.loads((run / "plan.json").read_text())
    charges = read_ledger(run / "ledger.jsonl", plan=(run / "plan.json").read_bytes()).charges
    plan["attack_limits"][name] *= 0.99
    (run / "plan.json").write_text(json.dumps(plan))
    (run / "ledger.jsonl").write_bytes(b"")
    write_rows(run, lambda rows: list(charges))
    code, (fault,) = verify(run)
    assert code == 4
    assert fault.startswith(f"{run / 'plan.json'}: attack_limits: expected at least")


def test_verify_takes_a_plan_that_says_nothing_of_attackers(copy: Callable[[str], Path]) -> None:
    run = copy("plain")
    plan = json.loads((run / "plan.json").read_text())
    charges = read_ledger(run / "ledger.jsonl", plan=(run / "plan.json").read_bytes()).charges
    del plan["attack_limits"]
    (run / "plan.json").write_text(json.dumps(plan))
    (run / "ledger.jsonl").write_bytes(b"")
    write_rows(run, lambda rows: list(charges))
    assert verify(run) == (0, [])


def test_verify_states_no_epsilon_of_rows_that_are_not_the_plans(
    copy: Callable[[str], Path],
) -> None:
    run = copy("plain")
    write_rows(run, each(set_to(event=sampled(9.0, 0.05))))
    assert verify_ledger(run).epsilon is None


SAMPLERS: list[tuple[Sampler, Relation, Accountant]] = [
    (
        Poisson(expected_batch_size=50, batch_schedule={"kind": "linear", "end": 2.0}),
        "zero_out",
        Rdp(),
    ),
    (Poisson(sample_rate=1.0), "zero_out", Rdp()),
    (User(sample_rate=0.1), "zero_out", Rdp()),
    (TruncatedPoisson(expected_batch_size=50), "zero_out", Pld()),
    (WithoutReplacement(expected_batch_size=30), "replace_one", Rdp()),
    (WithReplacement(expected_batch_size=30), "replace_one", Basic()),
    (Shuffle(expected_batch_size=300), "zero_out", Rdp()),
    (BallsInBins(expected_batch_size=300), "zero_out", Rdp()),
    (FullBatch(), "zero_out", Rdp()),
]


def planned_charge(parts: PrivateParts, plan: StepPlan, step: int) -> Charge:
    """Return what a run charges for a step of its plan."""
    z = plan.noise_multiplier(step)
    rate = plan.batch(step).sample_rate
    assert plan.relation is not None
    return step_charge(
        step=step,
        event=parts.event(z, rate=rate),
        mechanism="gaussian",
        sampler=parts.sampler.kind,
        sample_rate=rate,
        noise_multiplier=z,
        max_grad_norm=1.0,
        relation=plan.relation,
        unit=plan.unit,
        count=plan.charges(step),
        epsilon=plan.epsilon_after(step),
    )


@pytest.mark.parametrize(
    ("sampler", "relation", "accountant"), SAMPLERS, ids=[sampler.kind for sampler, *_ in SAMPLERS]
)
def test_rows_of_every_sampler_are_the_plans_own(
    sampler: Sampler, relation: Relation, accountant: Accountant
) -> None:
    budget = Budget(epsilon=1e3, delta=1e-5, relation=relation)
    parts = PrivateParts(sampler, Flat(), Constant(noise_multiplier=30.0), accountant, budget)
    plan = plan_privacy(parts, name="t", records=1000, steps=7)
    rows = [planned_charge(parts, plan, step) for step in range(1, 8)]
    found = LedgerRows(tuple(rows), ("",) * 8, b"", 0)
    assert list(row_faults(found, plan=plan, place=Path("ledger"))) == []


def test_every_sampler_that_a_spec_can_name_is_compared() -> None:
    assert {sampler.kind for sampler, *_ in SAMPLERS} == set(Registry().kinds("sampler"))
