"""What a membership attack says: the verdict, the bound, and what a reader must know beside it."""

from __future__ import annotations

import json

import numpy as np
import pytest
from matplotlib.figure import Figure

from dppipe.audit.attacks.claim import Claim
from dppipe.audit.attacks.files import write_report
from dppipe.audit.attacks.membership.findings import Findings, report_of
from dppipe.audit.attacks.membership.roc import make_roc
from dppipe.audit.attacks.report import MOST_LINES
from dppipe.errors import DppipeError
from dppipe.privacy.accountants.base import Certificate
from dppipe.privacy.gaussian import GaussianCurve
from dppipe.runs.directory import RunDirectory

N = 1000
TRUTH = np.arange(2 * N) < N


def findings(*, shift: float, mu: float, unit: str = "example", seeded: bool = False) -> Findings:
    """Return an attack that tells members by a shift of the scores, against a claim of mu."""
    noise = np.random.default_rng(3).normal(size=2 * N)
    curve = GaussianCurve(mu=mu)
    certificate = Certificate("pld", "zero_out", curve)
    claim = Claim(certificate, curve.epsilon(1e-5), 1e-5, "zero_out", unit)
    private = make_roc(noise + shift * TRUTH, TRUTH)
    twin = make_roc(noise + 3 * TRUTH, TRUTH)
    return Findings(
        method="lira-offline",
        shadows=16,
        private=private,
        twin=twin,
        twin_name="non-private twin",
        claim=claim,
        seed=7,
        chosen={},
        seeded=seeded,
    )


@pytest.mark.parametrize("unit", ["example", "user"])
@pytest.mark.parametrize("seeded", [False, True])
@pytest.mark.parametrize("shift", [0.1, 2.0])
def test_the_report_fits_a_screen(unit, seeded, shift):
    lines = report_of(findings(shift=shift, mu=0.5, unit=unit, seeded=seeded)).lines
    assert len(lines) <= MOST_LINES - 1  # one more says where to read
    assert max(map(len, lines)) <= 80


def test_an_attack_above_the_bound_says_so_and_names_the_other_explanation():
    report = report_of(findings(shift=2.0, mu=0.2))
    assert any(line.startswith("ABOVE THE BOUND") for line in report.lines)
    assert any("may differ in distribution" in line for line in report.lines)
    assert any("membership by chance" in paragraph for paragraph in report.text)
    assert report.data["above_the_bound"] is not None


def test_an_attack_below_the_bound_never_says_that_the_run_is_private():
    report = report_of(findings(shift=0.1, mu=0.5))
    said = " ".join([*report.lines, *report.text])
    assert report.data["above_the_bound"] is None
    assert "ABOVE" not in said
    assert "proves nothing" in said
    assert "passed" not in said


def test_a_users_run_says_what_is_attacked_and_a_seeded_one_that_the_bound_fails():
    assert any(
        "one record of each user" in p.lower()
        for p in report_of(findings(shift=0, mu=1, unit="user")).text
    )
    assert any("seeded" in line for line in report_of(findings(shift=0, mu=1, seeded=True)).lines)


def test_counts_suffice_to_work_every_number_out_again():
    found = findings(shift=1.0, mu=1.0)
    data = json.loads(json.dumps(dict(report_of(found).data), allow_nan=False))
    hits = np.array(data["private_run"]["true_positives"])
    alarms = np.array(data["private_run"]["false_positives"])
    at_one_percent = hits[alarms <= 10].max() / N
    assert data["true_positives_at"]["0.01"]["private"]["value"] == at_one_percent
    assert data["private_run"]["advantage"] == pytest.approx(((hits - alarms) / N).max())
    area = np.trapezoid(hits / N, alarms / N)
    assert data["private_run"]["auc"] == pytest.approx(area)
    assert data["claim"]["most_true_positives_at"]["0.01"] == pytest.approx(0.0923622, abs=2e-4)


def test_the_picture_has_both_attacks_the_bound_and_the_verdict():
    report = report_of(findings(shift=1.0, mu=1.0))
    figure = Figure()
    report.draw(figure)
    (axes,) = figure.axes
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert axes.get_xlim()[0] == pytest.approx(1 / (2 * N))
    names = " ".join(text.get_text() for text in axes.get_legend().get_texts())
    for name in ("private run", "non-private twin", "certificate", "alone", "guessing"):
        assert name in names
    assert figure.get_suptitle().startswith("At 1 % false positives")


def test_a_folder_that_cant_be_written_is_an_error_without_a_trace(tmp_path, monkeypatch):
    monkeypatch.setattr("dppipe.audit.attacks.files.write_documents", lambda run: None)
    run = RunDirectory(tmp_path)
    (tmp_path / "nonprivate").write_text("in the way")
    with pytest.raises(DppipeError, match="expected a file that can be written"):
        write_report(run, report_of(findings(shift=0, mu=1)))
    assert [file.name for file in tmp_path.iterdir()] == ["nonprivate"]


def test_results_appear_whole_and_after_the_statement(tmp_path, monkeypatch):
    run = RunDirectory(tmp_path)
    seen = []
    monkeypatch.setattr(
        "dppipe.audit.attacks.files.write_documents",
        lambda run: seen.append(list(run.attacks.glob("membership-*"))),
    )
    folder = write_report(run, report_of(findings(shift=0, mu=1)))
    assert seen == [[]]
    (folder / "stale").write_text("of an earlier attack")
    write_report(run, report_of(findings(shift=0, mu=1)))
    assert {file.name for file in folder.iterdir()} == {"attack.json", "attack.md", "roc.png"}
    assert [file.name for file in run.attacks.iterdir()] == ["membership-lira-offline"]


def test_without_matplotlib_there_is_no_picture_and_the_rest_is_there(tmp_path, monkeypatch):
    monkeypatch.setattr("dppipe.audit.attacks.files.write_documents", lambda run: None)
    monkeypatch.setattr("dppipe.audit.attacks.files.can_draw", lambda: False)
    folder = write_report(RunDirectory(tmp_path), report_of(findings(shift=0, mu=1)))
    assert {file.name for file in folder.iterdir()} == {"attack.json", "attack.md"}
    assert "roc.png" not in (folder / "attack.md").read_text()
