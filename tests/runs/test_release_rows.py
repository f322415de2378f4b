"""Rows of releases that aren't steps: what is written, read back, refused and found changed."""

from __future__ import annotations

import io
import itertools
import json
from pathlib import Path
from typing import Any

import dp_accounting
import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st
from private_steps import altered, step_charge

from dppipe.errors import PrivacyRefusal
from dppipe.privacy.charges import STEP_FACTS, Charge, charged_steps
from dppipe.privacy.ledger_reading import LedgerCorrupt, read_ledger, read_rows
from dppipe.privacy.ledger_rows import decode_row, digest, encode_row
from dppipe.runs.ledger import Ledger

PLAN = b'{"a plan": 1}\n'
EVENT = dp_accounting.GaussianDpEvent(3.0)
FIELDS = (
    "row",
    "version",
    "what",
    "event",
    "relation",
    "unit",
    "count",
    "epsilon",
    "facts",
    "prev",
    "hash",
)


def a_release(**changes: Any) -> Charge:
    charge = Charge(
        what="vote",
        event=EVENT,
        relation="zero_out",
        unit="example",
        count=1,
        epsilon=0.1,
        facts={"noise_multiplier": 3.0, "teachers": 7, "statistic": "counts"},
    )
    return altered(charge, **changes)


def a_step(**changes: Any) -> Charge:
    charge = step_charge(
        step=1,
        event=EVENT,
        mechanism="gaussian",
        sampler="full_batch",
        sample_rate=1.0,
        noise_multiplier=3.0,
        max_grad_norm=1.0,
        relation="zero_out",
        unit="example",
        count=1,
        epsilon=0.2,
    )
    return altered(charge, **changes)


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    """Write a ledger of a release and a step."""
    path = tmp_path / "ledger.jsonl"
    with Ledger.create(path, plan=PLAN) as opened:
        opened.charge(a_release())
        opened.charge(a_step())
    return path


def read(data: bytes) -> tuple[Charge, ...]:
    return read_rows(io.BytesIO(data), place=Path("ledger"), plan=PLAN).charges


def test_a_release_and_a_step_come_back_as_they_were_charged(ledger: Path) -> None:
    found = read_ledger(ledger, plan=PLAN)
    assert found.charges == (a_release(), a_step())
    assert found.releases == (a_release(),)
    assert (found.last_step, found.rows) == (1, 2)
    with Ledger.open(ledger, plan=PLAN) as again:
        assert (again.step, again.charged, again.head) == (1, 2, found.head)


def test_a_release_is_charged_beside_the_steps() -> None:
    assert charged_steps([a_release(), a_step(), a_step()]) == [(EVENT, 3)]
    assert charged_steps([a_release(count=0), a_step(count=0)]) == []


def test_the_row_of_a_release_says_what_it_is_and_has_its_fields_in_order(ledger: Path) -> None:
    row = json.loads(ledger.read_bytes().splitlines()[0])
    assert tuple(row) == FIELDS
    assert (row["version"], row["what"]) == (2, "vote")
    assert row["facts"] == {"noise_multiplier": 3.0, "teachers": 7, "statistic": "counts"}


numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)


@given(
    what=st.text(max_size=10).filter(lambda what: what != "step"),
    facts=st.dictionaries(st.text(max_size=10), numbers | st.text(max_size=10), max_size=4),
    count=st.integers(min_value=0),
    epsilon=st.floats(min_value=0, allow_nan=False, allow_infinity=False),
)
def test_every_release_comes_back_exactly(
    what: str, facts: dict[str, Any], count: int, epsilon: float
) -> None:
    charge = Charge(
        what=what,
        event=EVENT,
        relation="zero_out",
        unit="example",
        count=count,
        epsilon=epsilon,
        facts=facts,
    )
    found = decode_row(encode_row(charge, row=4, prev="ab"), row=4, prev="ab")
    assert found == charge
    assert repr(found.facts) == repr(facts)  # 1 == 1.0, but they are different bytes


def test_a_row_that_another_ledgers_row_has_paid_for_names_it() -> None:
    covered = a_release(covered_by="ab" * 32, count=0)
    line = encode_row(covered, row=1, prev="ab")
    assert json.loads(line)["covered_by"] == "ab" * 32
    assert decode_row(line, row=1, prev="ab") == covered


def test_every_other_value_of_every_byte_of_a_release_is_found(ledger: Path) -> None:
    whole = ledger.read_bytes().splitlines(keepends=True)[0]
    assert read(whole) == (a_release(),)
    for position, value in itertools.product(range(len(whole)), range(256)):
        changed = whole[:position] + bytes([value]) + whole[position + 1 :]
        if changed != whole:
            with pytest.raises(LedgerCorrupt):
                read(changed)


def test_every_byte_put_in_or_taken_out_of_a_release_is_found(ledger: Path) -> None:
    whole = ledger.read_bytes()
    first = whole.index(b"\n")
    for position in range(first + 1):
        for changed in (
            whole[:position] + whole[position + 1 :],
            *(whole[:position] + extra + whole[position:] for extra in (b" ", b"\n", b"{", b"0")),
        ):
            with pytest.raises(LedgerCorrupt):
                read(changed)


def test_a_release_torn_at_any_byte_stays_charged(ledger: Path) -> None:
    line = ledger.read_bytes().splitlines()[0]
    for end in range(1, len(line)):
        found = read_rows(io.BytesIO(line[:end]), place=ledger, plan=PLAN)
        assert (found.rows, found.torn) == (0, line[:end])


SENSELESS: dict[str, Any] = {
    "nan": float("nan"),
    "infinity": float("inf"),
    "minus infinity": -float("inf"),
    "numpy's nan": numpy.float64("nan"),
    "true": True,
    "none": None,
    "list": [1.0],
    "mapping": {"a": 1},
    "bytes": b"a",
    "complex": 1j,
    "array": numpy.zeros(2),
}


@pytest.mark.parametrize("fact", SENSELESS)
def test_a_fact_that_is_no_finite_number_or_text_is_refused_and_nothing_is_written(
    tmp_path: Path, fact: str
) -> None:
    path = tmp_path / "ledger.jsonl"
    with Ledger.create(path, plan=PLAN) as opened:
        with pytest.raises(PrivacyRefusal, match=r"facts\.teachers: .*Nothing was charged"):
            opened.charge(a_release(teachers=SENSELESS[fact]))
        assert path.read_bytes() == b""
        opened.charge(a_release())
    assert read_ledger(path, plan=PLAN).charges == (a_release(),)


@pytest.mark.parametrize("value", [numpy.float32(0.5), numpy.int64(7), 0, -3, 1e300])
def test_a_number_of_numpy_is_kept_as_a_plain_one(value: Any) -> None:
    line = encode_row(a_release(teachers=value), row=1, prev="ab")
    (kept,) = {json.loads(line)["facts"]["teachers"]}
    assert kept == value
    assert type(kept) in (int, float)


@pytest.mark.parametrize("lacking", STEP_FACTS)
def test_a_step_without_one_of_its_facts_is_refused(lacking: str) -> None:
    facts = {name: value for name, value in a_step().facts.items() if name != lacking}
    step = Charge(
        event=EVENT, relation="zero_out", unit="example", count=1, epsilon=0.1, facts=facts
    )
    with pytest.raises(PrivacyRefusal, match=r"expected the facts .*Nothing was charged"):
        encode_row(step, row=1, prev="ab")


def test_a_step_with_more_facts_than_its_row_can_show_is_refused() -> None:
    step = altered(a_step(), facts={**a_step().facts, "votes": 3})
    with pytest.raises(PrivacyRefusal, match=r"expected the facts .*Nothing was charged"):
        encode_row(step, row=1, prev="ab")


def line_of(**changes: Any) -> bytes:
    """Return a step's row with other fields, and a hash of its own."""
    row = json.loads(encode_row(a_step(), row=1, prev=digest(PLAN)))
    del row["hash"]
    row |= changes
    body = json.dumps(row, separators=(",", ":")).encode()
    return body[:-1] + b',"hash":"' + digest(body).encode() + b'"}\n'


@pytest.mark.parametrize("version", [0, 1, 2.0, 3, True, None, "2"])
def test_a_row_of_a_version_that_nobody_writes_is_no_row(version: Any) -> None:
    assert read(line_of()) == (a_step(),)
    with pytest.raises(LedgerCorrupt):
        read(line_of(version=version))


def test_a_step_can_not_be_written_as_another_release() -> None:
    with pytest.raises(LedgerCorrupt):
        read(line_of(what="step"))
    with pytest.raises(LedgerCorrupt):
        read(line_of(what="vote"))
    with pytest.raises(LedgerCorrupt):
        read(line_of(facts={}))


def test_rows_of_version_1_are_read_and_its_step_0_is_statistics() -> None:
    for step, what in ((0, "statistics"), (1, "step")):
        line = encode_row(a_step(step=step, version=1), row=1, prev=digest(PLAN))
        assert b"version" not in line
        (charge,) = read(line + b"\n")
        assert (charge.what, charge.step, charge.version) == (what, step, 1)
        assert charge.facts == a_step(step=step).facts
        assert encode_row(charge, row=1, prev=digest(PLAN)) == line
