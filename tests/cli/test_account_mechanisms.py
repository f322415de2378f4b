"""`dppipe account --mechanism` and `--disjoint`: one release, its picture, and every mistake named at once."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.figure import Figure
from typer.testing import CliRunner

from dppipe.cli.app import app
from dppipe.cli.mechanisms.choosing import MECHANISMS

QUESTIONS = {
    "gaussian": ["--mechanism", "gaussian", "--epsilon", "0.5", "--delta", "1e-5"],
    "gaussian_invalid": ["--mechanism", "gaussian", "--epsilon", "10", "--delta", "1e-5"],
    "gaussian_costs": ["--mechanism", "gaussian", "--noise-multiplier", "4", "--delta", "1e-5"],
    "gaussian_free": ["--mechanism", "gaussian", "--noise-multiplier", "1e6", "--delta", "1e-5"],
    "gaussian_group": ["--mechanism", "gaussian", "--noise-multiplier", "4", "--delta", "1e-5", "--group", "3"],
    "laplace": ["--mechanism", "laplace", "--epsilon", "0.5", "--delta", "1e-5"],
    "laplace_group": ["--mechanism", "laplace", "--noise-multiplier", "3", "--group", "3"],
    "answers": ["--mechanism", "randomized_response", "--truth-probability", "0.75", "--records", "1000"],
    "answers_many": ["--mechanism", "randomized_response", "--epsilon", "2", "--buckets", "10", "--steps", "5", "--delta", "1e-5"],
    "answers_group": ["--mechanism", "randomized_response", "--epsilon", "2", "--group", "4"],
    "exponential": ["--mechanism", "exponential", "--epsilon", "0.1", "--steps", "100", "--delta", "1e-5"],
    "exponential_scores": ["--mechanism", "exponential", "--epsilon", "1", "--scores", "0,1,2"],
    "flipped": ["--mechanism", "permute_and_flip", "--epsilon", "1", "--scores", "0,1,2", "--group", "2"],
    "known": ["--mechanism", "epsilon_delta", "--epsilon", "1", "--delta", "1e-6", "--group", "3"],
    "known_lost": ["--mechanism", "epsilon_delta", "--epsilon", "10", "--delta", "1e-6", "--group", "3"],
    "disjoint": ["--disjoint", "0.5,1,0.3"],
    "disjoint_replaced": ["--disjoint", "0.5,1", "--relation", "replace_one", "--delta", "1e-6"],
    "best_of": ["--select-best", "10", "--noise-multiplier", "1", "--delta", "1e-5", "--shape", "0"],
}  # fmt: skip


def ask(*words: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["account", *words])
    assert result.exit_code == code, result.output
    return result.output


def ask_json(*words: str) -> Any:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(ask(*words, "--json"), parse_constant=refuse)


@pytest.mark.parametrize("words", QUESTIONS.values(), ids=QUESTIONS)
def test_every_answer_fits_80_columns_has_data_and_a_picture(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Any] = []
    save = Figure.savefig
    monkeypatch.setattr(
        Figure, "savefig", lambda self, path: (drawn.append(self), save(self, path))
    )
    text = ask(*words, "--plot", str(tmp_path / "answer.png"))
    assert max(map(len, text.splitlines())) <= 80
    assert (tmp_path / "answer.png").read_bytes().startswith(b"\x89PNG\r\n")
    axes = drawn[0].axes[0]
    assert axes.lines or axes.patches
    assert axes.get_xlabel()
    assert axes.get_ylabel()
    assert axes.get_title()
    assert ask_json(*words)["certified"] is True


def test_the_classic_calibration_is_compared_where_it_is_valid() -> None:
    found = ask_json(*QUESTIONS["gaussian"])
    assert found["noise_multiplier"] == 7.03183  # 7.0318266..., rounded up
    classic = found["classic"]
    assert classic["noise_multiplier"] == 9.68962  # 9.6896105..., rounded up
    assert (classic["proven"], classic["holds"]) == (True, True)
    assert classic["true_epsilon"] == pytest.approx(0.352572, abs=2e-6)
    assert classic["waste"] == pytest.approx(0.377965, abs=1e-5)
    assert "valid here" in ask(*QUESTIONS["gaussian"])


def test_the_classic_calibration_is_called_invalid_where_it_fails() -> None:
    classic = ask_json(*QUESTIONS["gaussian_invalid"])["classic"]
    assert (classic["proven"], classic["holds"]) == (False, False)
    assert classic["true_delta"] == pytest.approx(2.2654e-5, abs=1e-8)
    assert classic["true_epsilon"] > 10
    text = ask(*QUESTIONS["gaussian_invalid"])
    assert "NOT VALID" in text
    assert "too little" in text
    between = ask("--mechanism", "gaussian", "--epsilon", "2", "--delta", "1e-5")
    assert "has no proof" in " ".join(between.split())


def test_noise_under_replace_one_is_doubled_as_in_a_schedule() -> None:
    one_step = ["--sample-rate", "1", "--steps", "1", "--noise-multiplier", "2", "--delta", "1e-5"]
    for mechanism in ("gaussian", "laplace"):
        for relation in ("zero_out", "add_remove", "replace_one"):
            words = ["--mechanism", mechanism, "--relation", relation]
            accountant = ["--accountant", "pld" if mechanism == "gaussian" else "basic"]
            single = ask_json(*words, "--noise-multiplier", "2", "--delta", "1e-5")
            schedule = ask_json(*words, *one_step, *accountant)
            assert single["epsilon"] == pytest.approx(schedule["epsilon"], rel=1e-5)


@settings(max_examples=40, deadline=None)
@given(st.floats(1e-3, 1e6), st.sampled_from(["zero_out", "replace_one"]), st.integers(1, 1000))
def test_printed_laplace_numbers_are_never_below_the_truth(
    noise: float, relation: str, k: int
) -> None:
    words = ["--mechanism", "laplace", "--noise-multiplier", repr(noise), "--relation", relation]
    found = ask_json(*words, "--group", str(k))
    with mpmath.workdps(50):
        exact = (2 if relation == "replace_one" else 1) / mpmath.mpf(repr(noise))
        least = exact * (1 - mpmath.mpf("1e-40"))
        assert least <= mpmath.mpf(repr(found["epsilon"])) <= exact * (1 + mpmath.mpf("1e-5"))
        assert k * least <= mpmath.mpf(repr(found["group"]["epsilon"]))


@settings(max_examples=40, deadline=None)
@given(st.floats(1e-3, 100), st.floats(1e-12, 0.1))
def test_printed_gaussian_noise_is_enough(epsilon: float, delta: float) -> None:
    words = ["--mechanism", "gaussian", "--epsilon", repr(epsilon), "--delta", repr(delta)]
    s = mpmath.mpf(repr(ask_json(*words)["noise_multiplier"]))
    with mpmath.workdps(50):
        half = 1 / (2 * s)
        true = mpmath.ncdf(half - epsilon * s) - mpmath.exp(epsilon) * mpmath.ncdf(
            -half - epsilon * s
        )
        assert true <= delta


def test_randomised_response_there_and_back() -> None:
    found = ask_json(*QUESTIONS["answers"])
    assert found["epsilon"] == 1.09862  # ln 3 = 1.0986122..., rounded up
    assert found["noise_parameter"] == 0.5
    assert found["spread"] == {"answers": 1000, "standard_deviation": 0.0273862}
    back = ask_json("--mechanism", "randomized_response", "--epsilon", "1.09862")
    assert 0.7499 < back["truth_probability"] <= 0.75001
    assert back["epsilon"] <= 1.09862


def test_selections_cost_what_their_theorems_say() -> None:
    found = ask_json(*QUESTIONS["exponential"])
    assert found["rho"] == 0.00125
    assert found["together"]["epsilon"] == pytest.approx(2.16572, abs=1e-4)
    assert found["together"]["accountant"] == "zcdp"
    flipped = ask_json(*QUESTIONS["flipped"])
    assert flipped["rho"] == 0.5
    assert [row["permute_and_flip"] for row in flipped["chances"]] == [0.146751, 0.266077, 0.587172]
    assert flipped["group"]["epsilon"] == 2


def test_a_group_says_by_what_it_is_bounded() -> None:
    exact = ask_json(*QUESTIONS["gaussian_group"])["group"]
    assert (exact["by"], exact["epsilon"]) == ("exact_curve", pytest.approx(3.146799, abs=2e-6))
    assert exact["converted_epsilon"] > exact["epsilon"]
    pure = ask_json(*QUESTIONS["laplace_group"])["group"]
    assert (pure["by"], pure["epsilon"], pure["delta"]) == ("k_epsilon", 1, 0)
    known = ask_json(*QUESTIONS["known"])["group"]
    assert (known["by"], known["epsilon"], known["delta"]) == ("conversion", 3, 1.11074e-05)
    lost = ask_json(*QUESTIONS["known_lost"])["group"]
    assert (lost["delta"], lost["certified"]) == (1, False)
    assert "Nothing is promised" in ask(*QUESTIONS["known_lost"])


def test_disjoint_parts_cost_the_largest_and_say_what_is_assumed() -> None:
    found = ask_json(*QUESTIONS["disjoint"])
    assert (found["epsilon"], found["sum"]) == (1, 1.8)
    assert "no person has records in two parts" in found["assumption"]
    assert "stays in its part" not in found["assumption"]
    replaced = " ".join(ask(*QUESTIONS["disjoint_replaced"]).split())
    assert "a record that is replaced stays in its part" in replaced


def test_all_mistakes_are_named_at_once() -> None:
    said = ask(
        *["--mechanism", "randomized_response", "--truth-probability", "0.2", "--epsilon", "3"],
        *["--scores", "1", "--relation", "add_remove", "--delta", "1e-5,1e-6"],
        code=2,
    )
    starts = [line.split(":")[0] for line in said.splitlines()]
    assert starts == ["--scores", "account", "--delta", "--relation", "--truth-probability"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--mechanism", "gausian", "--epsilon", "1"], "Did you mean 'gaussian'?"),
        (["--mechanism", "expontial", "--sample-rate", "0.1", "--steps", "1", "--epsilon", "1", "--delta", "1e-5"], "--mechanism: expected"),
        (["--mechanism", "gaussian", "--epsilon", "1"], "--delta: expected a number with --mechanism gaussian"),
        (["--mechanism", "gaussian", "--delta", "1e-5"], "account: expected --epsilon or --noise-multiplier"),
        (["--mechanism", "gaussian", "--noise-multiplier", "nan", "--delta", "1e-5"], "--noise-multiplier: expected a number from"),
        (["--mechanism", "gaussian", "--epsilon", "0", "--delta", "1e-5"], "--epsilon: expected a number from"),
        (["--mechanism", "gaussian", "--epsilon", "inf", "--delta", "1e-5"], "--epsilon: expected a number from"),
        (["--mechanism", "gaussian", "--epsilon", "1", "--delta", "0"], "--delta: expected a number from"),
        (["--mechanism", "gaussian", "--epsilon", "1", "--delta", "x"], "--delta: expected one number"),
        (["--mechanism", "gaussian", "--epsilon", "1", "--delta", "1e-5", "--accountant", "rdp"], "Add --sample-rate 1 --steps 1"),
        (["--mechanism", "gaussian", "--epsilon", "1", "--delta", "1e-5", "--relation", "swap"], "--relation: expected"),
        (["--mechanism", "gaussian", "--epsilon", "1", "--delta", "1e-5", "--group", "0"], "--group: expected a whole number from 1"),
        (["--mechanism", "laplace", "--epsilon", "1", "--buckets", "3"], "--buckets: expected none with --mechanism laplace"),
        (["--mechanism", "laplace", "--epsilon", "1", "--step-delta", "0.1"], "--step-delta: expected none"),
        (["--mechanism", "randomized_response", "--truth-probability", "1"], "--truth-probability: expected"),
        (["--mechanism", "randomized_response", "--truth-probability", "nan"], "--truth-probability: expected"),
        (["--mechanism", "randomized_response", "--truth-probability", "0.5"], "--truth-probability: expected"),
        (["--mechanism", "randomized_response", "--epsilon", "1", "--buckets", "1"], "--buckets: expected a whole number from 2"),
        (["--mechanism", "randomized_response", "--epsilon", "40"], "--epsilon: expected at most"),
        (["--mechanism", "randomized_response", "--epsilon", "1", "--steps", "3"], "--delta: expected a number with --steps"),
        (["--mechanism", "exponential", "--scores", "1,2"], "account: expected --epsilon"),
        (["--mechanism", "exponential", "--epsilon", "1", "--scores", "1,b"], "--scores: expected numbers"),
        (["--mechanism", "exponential", "--epsilon", "1", "--scores", "1,nan"], "--scores: expected numbers from"),
        (["--mechanism", "exponential", "--epsilon", "1", "--sample-rate", "0.1"], "--sample-rate: expected none with --mechanism exponential"),
        (["--mechanism", "exponential", "--epsilon", "1", "--relation", "zero_out"], "--relation: expected none"),
        (["--mechanism", "exponential", "--epsilon", "1", "--plot", "x.png"], "--plot: expected --scores"),
        (["--mechanism", "epsilon_delta", "--epsilon", "1", "--delta", "1e-5"], "--group: expected a number"),
        (["--disjoint", "1,0"], "--disjoint: expected numbers from"),
        (["--select-best", "10", "--noise-multiplier", "1"], "--delta: expected a number"),
        (["--select-best", "1", "--noise-multiplier", "1", "--delta", "1e-5"], "--select-best: expected a number from"),
        (["--select-best", "10", "--noise-multiplier", "1", "--delta", "1e-5", "--repetitions", "poison"], "Did you mean 'poisson'"),
        (["--select-best", "10", "--noise-multiplier", "1", "--delta", "1e-5", "--repetitions", "poisson", "--shape", "1"], "--shape: expected none"),
        (["--select-best", "10", "--mechanism", "exponential", "--noise-multiplier", "1", "--delta", "1e-5"], "--mechanism: expected gaussian or laplace"),
        (["--shape", "1", "--sample-rate", "0.1", "--steps", "3", "--noise-multiplier", "1", "--delta", "1e-5"], "Add --select-best"),
        (["--disjoint", ""], "--disjoint: expected numbers"),
        (["--disjoint", "1", "--mechanism", "gaussian"], "--mechanism: expected none with --disjoint"),
        (["--disjoint", "1", "--step-epsilon", "1", "--delta", "1e-5"], "--disjoint: expected none with --step-epsilon"),
        (["--sample-rate", "0.1", "--steps", "3", "--noise-multiplier", "1", "--delta", "1e-5", "--group", "2"], "--group: expected none without a single mechanism"),
        (["--sample-rate", "0.1", "--steps", "3", "--noise-multiplier", "1"], "--delta: expected the delta"),
        (["--epsilon", "1", "--delta", "1e-5"], "One release without a sampler"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_its_option_and_no_traceback(words: list[str], said: str) -> None:
    output = ask(*words, code=2)
    assert said in output
    assert "Traceback" not in output
    assert "internal error" not in output


@pytest.mark.parametrize(
    ("words", "by_curve", "by_rdp", "one_run"),
    [
        (["--noise-multiplier", "5", "--shape", "0"], 1.1099, 1.4180, 0.7255),
        (["--noise-multiplier", "1", "--shape", "1"], 6.6175, 8.5145, 4.3772),
        (["--noise-multiplier", "1", "--repetitions", "poisson"], 8.7158, 8.4614, 4.3772),
    ],
)
def test_the_best_of_several_runs_costs_what_the_reference_says(
    words: list[str], by_curve: float, by_rdp: float, one_run: float
) -> None:
    """The numbers are those of independent computations, to the digits shown there."""
    found = json.loads(ask("--select-best", "10", "--delta", "1e-5", *words, "--json"))
    assert found["by_curve"] == pytest.approx(by_curve, abs=2e-4)
    assert found["by_rdp"] == pytest.approx(by_rdp, abs=2e-4)
    assert found["one_run"] == pytest.approx(one_run, abs=2e-4)
    assert found["epsilon"] == min(found["by_curve"], found["by_rdp"])


def test_the_help_names_every_mechanism_and_loads_nothing_heavy() -> None:
    code = (
        "import sys\nfrom typer.testing import CliRunner\nfrom dppipe.cli.app import app\n"
        "print(CliRunner().invoke(app, ['account', '--help']).output)\n"
        "heavy = {'torch', 'dp_accounting', 'numpy', 'scipy', 'matplotlib'}\n"
        "print('loaded:', sorted(heavy & set(sys.modules)))\n"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert "loaded: []" in shown
    squeezed = "".join(shown.split())
    for mechanism in MECHANISMS:
        assert mechanism in squeezed
