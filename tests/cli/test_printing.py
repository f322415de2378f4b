"""What commands print: curves and tables within 80 columns, and colours that add no words."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dppipe.cli.printing import screen
from dppipe.cli.printing.columns import columns
from dppipe.cli.printing.curves import Point, curve_text
from dppipe.cli.printing.screen import coloured, say

_numbers = st.floats(0, 1e6) | st.just(math.inf)


@given(st.lists(st.tuples(st.integers(1, 10**9), _numbers), max_size=12), st.floats(0.01, 1e4))
@settings(deadline=None, max_examples=80)
def test_a_curve_fits_80_columns_and_its_mark_stands_still(found, limit):
    lines = curve_text([Point(step, epsilon) for step, epsilon in found], limit=limit).splitlines()
    assert all(len(line) <= 80 for line in lines)
    if found:
        assert len({line.rindex("|") for line in lines}) == 1


@given(st.lists(st.floats(0, 50), min_size=2, max_size=12))
@settings(deadline=None, max_examples=60)
def test_a_longer_bar_is_a_larger_epsilon(found):
    found = sorted(found)
    lengths = [
        line.count("=")
        for line in curve_text([Point(1, epsilon) for epsilon in found]).splitlines()
    ]
    assert lengths == sorted(lengths)
    if found[-1] > 0:
        assert lengths[-1] > 40


def test_a_bar_below_the_budget_does_not_cross_its_mark():
    (below,) = curve_text([Point(5, 2.9999)], limit=3.0).splitlines()
    (above,) = curve_text([Point(5, 3.9)], limit=3.0).splitlines()
    assert below.endswith("=|")
    assert "|=" in above


@given(st.lists(st.tuples(st.text("ab ", max_size=9), st.text("xy ", max_size=120)), max_size=5))
@settings(deadline=None, max_examples=40)
def test_a_table_fits_80_columns(rows):
    text = columns(("name", "what it is"), rows)
    assert all(len(line) <= 80 or " " not in line.strip() for line in text.splitlines())


def test_numbers_stand_to_the_right_below_their_names():
    text = columns(("kind", "epsilon"), [("pld", "1.8"), ("advanced", "454")], numbers=("epsilon",))
    assert text == "  kind      epsilon\n  pld           1.8\n  advanced      454"


@given(st.text("ab.():-\n =|", max_size=200))
@settings(deadline=None, max_examples=60)
def test_colours_change_no_word(text):
    assert coloured(text).plain.rstrip("\n") == "\n".join(text.splitlines()).rstrip("\n")


def test_sentences_are_not_headings_and_verdicts_stand_out():
    text = coloured("run\n\n  epsilon  1, an ESTIMATE\n\nWhat is released is\nprivate.")
    styles = {text.plain[span.start : span.end]: str(span.style) for span in text.spans}
    assert styles["run"] == "bold"
    assert styles["epsilon"] == "cyan"
    assert styles["ESTIMATE"] == "bold yellow"
    assert "What is released is" not in styles


@pytest.mark.parametrize(
    ("variables", "colours"),
    [
        ({"TERM": "xterm"}, True),
        ({"TERM": "xterm", "NO_COLOR": "1"}, False),
        ({"TERM": "dumb"}, False),
    ],
)
def test_colours_follow_the_terminal(variables, colours, monkeypatch, capsys):
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(screen.sys.stdout, "isatty", lambda: True, raising=False)
    say("name\n\n  a  certified")
    assert ("\x1b[" in capsys.readouterr().out) is colours


def test_a_pipe_gets_the_text_alone(capsys):
    say("name\n\n  a  certified")
    assert capsys.readouterr().out == "name\n\n  a  certified\n"
