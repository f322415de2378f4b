"""`dppipe account` answers with the accountants' own numbers, says which are certified, and refuses the rest."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import dp_accounting
import pytest
from matplotlib.figure import Figure
from typer.testing import CliRunner

from dppipe.cli.app import app

SCHEDULE = [
    "--sample-rate",
    "0.01",
    "--noise-multiplier",
    "1.0",
    "--steps",
    "1000",
    "--delta",
    "1e-5",
]
COSTS = ["--noise-multiplier", "1", "--steps", "3"]


def ask(*words: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["account", *words])
    assert result.exit_code == code, result.output
    return result.output


def ask_json(*words: str) -> Any:
    return json.loads(ask(*words, "--json"))


def test_epsilon_of_a_schedule() -> None:
    found = ask_json(*SCHEDULE)
    assert found["epsilon"] == pytest.approx(1.82824, abs=5e-4)
    assert found["epsilon"] >= 1.828243
    assert {name: found[name] for name in found if name != "epsilon"} == {
        "delta": 1e-5,
        "accountant": "pld",
        "certified": True,
        "relation": "zero_out",
        "sampler": "poisson",
        "sample_rate": 0.01,
        "noise_multiplier": 1.0,
        "steps": 1000,
        "mechanism": "gaussian",
    }


def test_noise_for_a_budget() -> None:
    found = ask_json(
        "--sample-rate", "0.01", "--epsilon", "1", "--steps", "1000", "--delta", "1e-5"
    )
    assert found["noise_multiplier"] == pytest.approx(1.41471, abs=3e-4)
    assert 0.999 < found["epsilon"] <= 1


@pytest.mark.parametrize(("accountant", "expected"), [("pld", 1202), ("rdp", 881)])
def test_most_steps_for_a_budget(accountant: str, expected: int) -> None:
    words = [
        "--sample-rate",
        "0.01",
        "--epsilon",
        "2",
        "--noise-multiplier",
        "1",
        "--delta",
        "1e-5",
    ]
    assert ask_json(*words, "--accountant", accountant)["steps"] == expected


def test_an_epoch_whose_last_batch_is_smaller_is_charged_once() -> None:
    """Three batches of 300 and one of 100 are an epoch of 1000 records, as in a run: not 1.2 epochs."""
    shuffled = [
        "--sampler",
        "shuffle",
        "--records",
        "1000",
        "--batch-size",
        "300",
        "--accountant",
        "gdp",
        "--delta",
        "1e-5",
    ]
    one = ask_json(*shuffled, "--noise-multiplier", "4", "--steps", "4")
    assert one["epsilon"] == pytest.approx(dp_accounting.get_epsilon_gaussian(4.0, 1e-5), abs=1e-5)
    assert ask_json(*shuffled, "--noise-multiplier", "4", "--steps", "5")["epsilon"] > 1.3
    assert ask_json(*shuffled, "--noise-multiplier", "4", "--epsilon", "0.93")["steps"] == 4


def test_not_one_step_fits() -> None:
    assert (
        ask_json(
            "--sample-rate", "1", "--epsilon", "1", "--noise-multiplier", "1", "--delta", "1e-5"
        )["steps"]
        == 0
    )
    text = ask("--sample-rate", "1", "--epsilon", "1", "--noise-multiplier", "1", "--delta", "1e-5")
    assert "Not one step fits" in text
    assert "differentially private" not in text


def test_all_accountants_with_their_marks_and_refusals() -> None:
    found = ask_json(*SCHEDULE, "--accountant", "all")
    marks = {result["accountant"]: result["certified"] for result in found["results"]}
    assert marks == {
        "pld": True,
        "rdp": True,
        "tcdp": True,
        "gdp": False,
        "advanced": True,
        "basic": True,
    }
    assert [entry["accountant"] for entry in found["refused"]] == ["zcdp"]
    text = ask(*SCHEDULE, "--accountant", "all")
    assert text.count("ESTIMATE") == 1
    assert "not amplified by sampling" in text


@pytest.mark.parametrize(
    "deltas", [["--delta", "1e-5,1e-6"], ["--delta", "1e-5", "--delta", "1e-6"]]
)
def test_several_deltas(deltas: list[str]) -> None:
    found = ask_json("--sample-rate", "0.01", "--noise-multiplier", "1", "--steps", "100", *deltas)
    assert [result["delta"] for result in found["results"]] == [1e-5, 1e-6]
    assert found["results"][0]["epsilon"] < found["results"][1]["epsilon"]


def test_the_curve_ends_at_epsilon() -> None:
    found = ask_json(*SCHEDULE, "--curve", "10")
    assert [point["step"] for point in found["curve"]] == list(range(100, 1001, 100))
    assert found["curve"][-1]["epsilon"] == found["epsilon"]
    assert "step      500" in ask(*SCHEDULE, "--curve", "2")


@pytest.mark.parametrize(
    "several", [["--delta", "1e-6"], ["--accountant", "all"]], ids=["deltas", "accountants"]
)
def test_every_one_of_several_answers_shows_its_curve(several: list[str]) -> None:
    text = ask(*SHORT, "--curve", "2", *several)
    names = [line for line in text.splitlines() if line.endswith((", certified", ", ESTIMATE"))]
    assert len(names) == text.count("step        4") == text.count("step        8") >= 2
    assert ("gdp at delta 1e-05, ESTIMATE" in names) == ("all" in several)


def test_an_epsilon_that_is_not_finite_is_null_everywhere_and_no_claim_that_none_exists() -> None:
    words = [
        "--sample-rate",
        "0.01",
        "--noise-multiplier",
        "0.001",
        "--steps",
        "4",
        "--delta",
        "1e-5",
    ]
    found = ask_json(*words, "--curve", "2")
    assert found["epsilon"] is None
    assert [point["epsilon"] for point in found["curve"]] == [None, None]
    assert "no finite epsilon is proven at this delta" in ask(*words)
    assert (
        ask_json(*words, "--accountant", "basic")["epsilon"] > 1e5
    )  # there is one, by another theorem


def test_without_steps_there_is_no_curve_to_show_or_draw(tmp_path: Path) -> None:
    words = [
        "--sample-rate",
        "0.01",
        "--noise-multiplier",
        "1",
        "--steps",
        "0",
        "--delta",
        "1e-5",
        "--curve",
        "2",
    ]
    assert "\n\n\n" not in ask(*words, "--plot", str(tmp_path / "curve.png"))


def test_the_unit_of_a_sampler_of_users_is_a_user() -> None:
    assert "one\nuser's contribution" in ask(*SHORT, "--sampler", "user", "--accountant", "rdp")


@pytest.mark.parametrize(
    ("sampler", "rate"), [("without_replacement", 0.02), ("truncated_poisson", 0.0146)]
)
def test_no_lower_rate_is_answered_for_than_was_asked_about(sampler: str, rate: float) -> None:
    """1.46 records of 100: two where a batch is of one size, as it stands else; never one."""
    found = ask_json(
        *COSTS,
        "--sampler",
        sampler,
        "--records",
        "100",
        "--sample-rate",
        "0.0146",
        "--delta",
        "1e-5",
    )
    assert found["sample_rate"] == pytest.approx(rate)


def test_a_sampler_of_fixed_batches_takes_its_own_relation() -> None:
    words = [
        "--sampler",
        "without_replacement",
        "--records",
        "10000",
        "--noise-multiplier",
        "2",
        "--steps",
        "100",
        "--delta",
        "1e-5",
    ]
    found = ask_json(*words, "--batch-size", "100")
    assert found["relation"] == "replace_one"
    assert found["epsilon"] == pytest.approx(0.768, abs=2e-3)
    assert ask_json(*words, "--sample-rate", "0.01") == found
    assert "replace_one" in ask(*words, "--batch-size", "100", "--relation", "zero_out", code=3)


def test_truncated_poisson_takes_its_largest_batch() -> None:
    words = [
        "--sampler",
        "truncated_poisson",
        "--records",
        "10000",
        "--batch-size",
        "100",
        "--max-batch-size",
        "130",
    ]
    found = ask_json(*words, "--noise-multiplier", "1", "--steps", "1000", "--delta", "1e-5")
    assert found["epsilon"] == pytest.approx(3.68407, abs=1e-3)


def test_textbook_composition_by_each_theorem() -> None:
    found = ask_json(
        "--step-epsilon", "0.4", "--step-delta", "1e-6", "--steps", "1000", "--delta", "1.001e-3"
    )
    by_name = {result["theorem"]: result["epsilon"] for result in found["results"]}
    assert by_name == {
        "basic": 400,
        "advanced": pytest.approx(145.44045, abs=1e-3),
        "optimal": pytest.approx(135.372, abs=0.05),
    }
    sampled = ask_json(
        "--step-epsilon",
        "0.4",
        "--step-delta",
        "1e-6",
        "--steps",
        "1000",
        "--delta",
        "1.1e-5",
        "--sample-rate",
        "0.01",
    )
    assert sampled["results"][1]["epsilon"] == pytest.approx(0.827571, abs=1e-5)
    assert "optimal" in ask("--step-epsilon", "0.1", "--steps", "100", "--delta", "1e-5")


@pytest.mark.parametrize(("mechanism", "expected"), [("gaussian", 3.7306316), ("laplace", 1.0)])
def test_textbook_calibration_of_one_mechanism(mechanism: str, expected: float) -> None:
    words = [
        "--mechanism",
        mechanism,
        "--sample-rate",
        "1",
        "--steps",
        "1",
        "--epsilon",
        "1",
        "--delta",
        "1e-5",
    ]
    accountant = "pld" if mechanism == "gaussian" else "basic"
    assert ask_json(*words, "--accountant", accountant)["noise_multiplier"] == pytest.approx(
        expected, rel=1e-4
    )


def test_the_text_says_what_it_means() -> None:
    text = ask(*SCHEDULE)
    assert "1.829 at delta 1e-05" in text
    assert "certified: a proven upper bound" in text
    assert "differentially private" in text
    estimate = ask(*SCHEDULE, "--accountant", "gdp")
    assert "ESTIMATE, not a guarantee" in estimate


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--sample-rate", "0.1", "--steps", "3", "--delta", "1e-5"], 2, "two of"),
        ([*SCHEDULE, "--epsilon", "1"], 2, "two of"),
        (["--sample-rate", "2", "--noise-multiplier", "1", "--steps", "3", "--delta", "1e-5"], 2, "--sample-rate"),
        (["--sample-rate", "0.1", "--noise-multiplier", "nan", "--steps", "3", "--delta", "1e-5"], 2, "--noise-multiplier"),
        (["--sample-rate", "0.1", "--noise-multiplier", "0", "--steps", "3", "--delta", "1e-5"], 2, "--noise-multiplier"),
        (["--sample-rate", "0.1", "--noise-multiplier", "1", "--steps", "-3", "--delta", "1e-5"], 2, "--steps"),
        (["--sample-rate", "0.1", "--noise-multiplier", "1", "--steps", "1000000001", "--delta", "1e-5"], 2, "1,000,000,000"),
        (["--step-epsilon", "0.1", "--steps", "1000000001", "--delta", "1e-5"], 2, "1,000,000,000"),
        (["--sample-rate", "0.1", "--noise-multiplier", "1", "--steps", "3", "--delta", "1"], 2, "--delta"),
        (["--sample-rate", "0.1", "--noise-multiplier", "1", "--steps", "3", "--delta", "x"], 2, "--delta"),
        (["--sample-rate", "0.1", "--epsilon", "inf", "--steps", "3", "--delta", "1e-5"], 2, "--epsilon"),
        (["--noise-multiplier", "1", "--steps", "3", "--delta", "1e-5"], 2, "--sample-rate"),
        (["--sampler", "without_replacement", "--noise-multiplier", "1", "--steps", "3", "--delta", "1e-5"], 2, "--records"),
        ([*SCHEDULE, "--accountant", "plt"], 2, "plt"),
        ([*SCHEDULE, "--sampler", "weighted"], 2, "weighted"),
        ([*SCHEDULE, "--relation", "swap"], 2, "--relation"),
        ([*SCHEDULE, "--mechanism", "cauchy"], 2, "--mechanism"),
        (["--step-epsilon", "0.1", "--delta", "1e-5"], 2, "--steps"),
        ([*SCHEDULE, "--accountant", "zcdp"], 3, "not amplified"),
        ([*SCHEDULE, "--relation", "replace_one", "--accountant", "rdp"], 3, "pld"),
    ],
)  # fmt: skip
def test_mistakes_are_named(words: list[str], code: int, said: str) -> None:
    assert said in ask(*words, code=code)


def test_a_plot_asks_for_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert "dppipe[plot]" in ask(*SCHEDULE, "--plot", str(tmp_path / "curve.png"), code=2)


SHORT = ["--sample-rate", "0.01", "--noise-multiplier", "1.0", "--steps", "8", "--delta", "1e-5"]
PICTURES = {
    "several": ["--accountant", "all"],
    "one": ["--accountant", "rdp"],
    "deltas": ["--accountant", "rdp", "--delta", "1e-6"],
}


@pytest.mark.parametrize("words", PICTURES.values(), ids=PICTURES)
def test_a_plot_is_a_picture_with_every_curve_in_it(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Any] = []
    save = Figure.savefig
    monkeypatch.setattr(
        Figure, "savefig", lambda self, path: (drawn.append(self), save(self, path))
    )
    shown = ask(*SHORT, *words, "--plot", str(tmp_path / "curve.png"))
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG\r\n")
    (axes,) = drawn[0].axes
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert (
        len(labels)
        == len(axes.lines)
        == max(1, shown.count("  certified") + shown.count("  ESTIMATE"))
    )
    assert axes.get_yscale() == ("log" if "all" in words else "linear")
    for line, label in zip(axes.lines, labels, strict=True):
        assert label.endswith("certified" if line.get_linestyle() == "-" else "ESTIMATE")
        assert line.get_xdata()[-1] == 8


def test_a_plot_that_cannot_be_written_is_a_usage_error(tmp_path: Path) -> None:
    assert "--plot" in ask(
        *SHORT, "--accountant", "rdp", "--plot", str(tmp_path / "curve.unknown"), code=2
    )
    assert "--plot" in ask(
        *SHORT, "--accountant", "rdp", "--plot", str(tmp_path / "missing" / "curve.png"), code=2
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--accountant", "pdl"], "--accountant: no accountant named 'pdl'"),
        (["--sampler", "poison"], "--sampler: no sampler named 'poison'"),
        (["--batch-size", "20"], "--batch-size: expected it or --sample-rate, got both"),
        (["--curve", "-3"], "--curve"),
        (["--step-epsilon", "0.1"], "--noise-multiplier: expected none with --step-epsilon"),
    ],
)
def test_a_mistake_is_answered_with_its_option(words: list[str], said: str) -> None:
    assert said in ask(*SCHEDULE, *words, code=2)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--step-epsilon", "0.1"], "--steps: expected how many mechanisms"),
        (["--step-epsilon", "0.1", "--steps", "3", "--step-delta", "2"], "--step-delta: expected"),
        (
            ["--step-epsilon", "0.1", "--steps", "3", "--sample-rate", "0"],
            "--sample-rate: expected",
        ),
        (
            ["--step-epsilon", "0.1", "--steps", "3", "--curve", "2"],
            "--curve: expected none with --step-epsilon",
        ),
        (
            ["--step-epsilon", "0.1", "--steps", "3", "--records", "9"],
            "--records: expected none with --step-epsilon",
        ),
        (
            ["--step-epsilon", "0.1", "--steps", "3", "--accountant", "rdp"],
            "--accountant: expected none with --step-epsilon",
        ),
        (
            [*COSTS, "--sample-rate", "0.1", "--step-delta", "1e-6"],
            "--step-delta: expected none without --step-epsilon",
        ),
        (
            ["--noise-multiplier", "1e300", "--steps", "3", "--sample-rate", "0.1"],
            "--noise-multiplier: expected a number from",
        ),
        (COSTS, "expected --sample-rate, or --records and --batch-size"),
        (
            [*COSTS, "--batch-size", "9"],
            "expected --sample-rate, or --records and --batch-size for sampler 'poisson', got --batch",
        ),
        (
            ["--epsilon", "1", "--steps", "0", "--sample-rate", "0.1"],
            "--steps: expected 1 or more where noise is worked out",
        ),
        (
            [*COSTS, "--records", "0", "--batch-size", "3"],
            "--records: expected a whole number of at least 1, got 0",
        ),
        (
            [*COSTS, "--records", "9", "--batch-size", "-3"],
            "--batch-size: expected a finite number > 0, got -3",
        ),
        (
            [*COSTS, "--sampler", "shuffle", "--records", "9", "--batch-size", "0.5"],
            "--batch-size: expected a whole number",
        ),
        (
            [*COSTS, "--sample-rate", "0.1", "--max-batch-size", "3"],
            "take --sampler truncated_poisson",
        ),
        (
            [*COSTS, "--sampler", "full_batch", "--sample-rate", "0.1"],
            "--sample-rate: expected every record in every step",
        ),
        (
            [*COSTS, "--sampler", "full_batch", "--records", "9", "--batch-size", "3"],
            "--batch-size: expected every record",
        ),
    ],
)
def test_a_missing_or_wrong_number_is_named(words: list[str], said: str) -> None:
    assert said in ask(*words, "--delta", "1e-5", code=2)
