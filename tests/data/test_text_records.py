"""Records of delimited text: split as the csv module splits them, one by one, in bounded memory."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dppipe.data.tables.field_lines as field_lines
from dppipe.data.tables.field_lines import field_records
from dppipe.data.tables.json_lines import json_records

CELLS = st.text(st.sampled_from(list('ab," \n\t')), max_size=6)
ROWS = st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=8)


@settings(deadline=None)
@given(rows=ROWS, everything=st.booleans())
def test_what_the_csv_module_writes_is_read_back(
    rows: list[tuple[str, str]], everything: bool
) -> None:
    file = io.StringIO()
    quoting = csv.QUOTE_ALL if everything else csv.QUOTE_MINIMAL
    csv.writer(file, quoting=quoting, lineterminator="\n").writerows(rows)
    found = list(field_records(io.BytesIO(file.getvalue().encode()), delimiter=",", quotes=True))
    assert [record.fault for record in found] == [None] * len(rows)
    assert [record.fields for record in found] == rows


def test_without_quotes_a_quotation_mark_is_a_character_like_others() -> None:
    data = b'"a\tb\n"\t"\n'
    found = list(field_records(io.BytesIO(data), delimiter="\t", quotes=False))
    assert [record.fields for record in found] == [('"a', "b"), ('"', '"')]


def test_a_long_record_is_skipped_and_the_next_one_has_its_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(field_lines, "LONGEST", 64)
    data = b"\xef\xbb\xbfa\tb\r\n" + b"x" * 1000 + b"\ty\n\nc\td\n"
    found = list(field_records(io.BytesIO(data), delimiter="\t", quotes=True))
    assert [(one.line, one.fields) for one in found] == [(1, ("a", "b")), (2, ()), (4, ("c", "d"))]
    assert found[1].fault == field_lines.TOO_LONG
    assert not found[1].ends_nowhere
    quoted = b'"' + b"word\n" * 50 + b'",x\nc,d\n'
    long, last = field_records(io.BytesIO(quoted), delimiter=",", quotes=True)
    assert (long.fault, long.ends_nowhere) == (field_lines.TOO_LONG, False)
    assert (last.line, last.fields) == (52, ("c", "d"))


def test_a_quotation_mark_that_never_closes_leaves_no_record_to_drop() -> None:
    found = list(field_records(io.BytesIO(b'a,b\n"c,d\ne,f\n'), delimiter=",", quotes=True))
    assert [(one.line, one.ends_nowhere) for one in found] == [(1, False), (2, True)]


def test_members_of_json_lines_are_texts_and_faults_are_told_apart() -> None:
    lines = [
        b'{"text": "caf\\u00e9", "label": 3, "more": [1]}',
        b'{"label": true, "text": null}',
        b"[1, 2]",
        b'{"text": ["a"], "label": 1}',
        b"\xff",
        b"[" * 100_000,
    ]
    found = list(json_records(io.BytesIO(b"\n".join(lines)), ["text", "label"]))
    assert [members for _, members, _ in found[:2]] == [("café", "3"), (None, "true")]
    assert [fault is None for _, _, fault in found] == [True, True, False, False, False, False]
    assert [line for line, _, _ in found] == [1, 2, 3, 4, 5, 6]
