"""The doctor: what it shows of a spec's model, and that it reads no record."""

from __future__ import annotations

import json

from typer.testing import CliRunner

from dppipe.cli.app import app


def test_the_doctor_lists_every_parameter_and_reads_no_record(run, tmp_path, monkeypatch):
    from dppipe.data.synthetic import Synthetic

    monkeypatch.setattr(Synthetic, "load", lambda self: 1 / 0)
    shown = CliRunner().invoke(app, ["doctor", str(tmp_path / "spec.yaml"), "--json"])
    assert shown.exit_code == 0, shown.output
    report = json.loads(shown.output)
    assert [parameter["name"] for parameter in report["parameters"]] == ["1.weight", "1.bias"]
    assert sum(parameter["values"] for parameter in report["parameters"]) == 8 * 3 + 3


def test_the_doctor_names_a_layer_that_mixes_examples(run, tmp_path, monkeypatch):
    (tmp_path / "mixing_nets.py").write_text(
        "from torch import nn\n\n\nclass Net(nn.Sequential):\n"
        "    def __init__(self):\n        super().__init__(nn.Linear(8, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))\n"
    )
    monkeypatch.chdir(tmp_path)
    shown = CliRunner().invoke(app, ["doctor", "spec.yaml", "--set", "model={class_path: mixing_nets.Net}"])
    assert shown.exit_code == 3
    assert "1" in shown.output
    assert "GroupNorm" in shown.output
