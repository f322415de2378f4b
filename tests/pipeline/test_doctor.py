"""The doctor: what it shows of a spec's model, and that it reads no record."""

from __future__ import annotations

import json

from typer.testing import CliRunner

from dppipe.cli.app import app
from dppipe.cli.doctor import report_text
from dppipe.engine.checks.report import EngineReport, ParameterReport


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
        "    def __init__(self):\n        super().__init__(nn.Linear(8, 4), nn.BatchNorm1d(4), "
        "nn.Linear(4, 3))\n"
    )
    monkeypatch.chdir(tmp_path)
    shown = CliRunner().invoke(
        app, ["doctor", "spec.yaml", "--set", "model={class_path: mixing_nets.Net}"]
    )
    assert shown.exit_code == 3
    assert "1" in shown.output
    assert "GroupNorm" in shown.output


def test_the_doctor_says_that_a_mean_loss_is_slow_and_how_to_make_it_fast(
    run, tmp_path, monkeypatch
):
    (tmp_path / "mean_nets.py").write_text(
        "import pytorch_lightning as pl\nimport torch\nimport torch.nn.functional as F\nfrom "
        "torch import nn\n\n\n"
        "class Mean(pl.LightningModule):\n"
        "    def __init__(self):\n        super().__init__()\n        self.layer = nn.Linear(8, "
        "3)\n"
        "    def training_step(self, batch, batch_idx):\n        return "
        "F.cross_entropy(self.layer(batch[0]), batch[1])\n"
        "    def configure_optimizers(self):\n        return torch.optim.SGD(self.parameters(), "
        "lr=0.1)\n\n\n"
        "class Each(Mean):\n"
        "    def per_sample_loss(self, batch):\n"
        "        return F.cross_entropy(self.layer(batch[0]), batch[1], reduction='none')\n"
    )
    monkeypatch.chdir(tmp_path)
    without = (tmp_path / "spec.yaml").read_text().replace("optimizer: {kind: sgd, lr: 0.5}\n", "")
    (tmp_path / "own.yaml").write_text(without)
    mean, each = (
        CliRunner().invoke(
            app, ["doctor", "own.yaml", "--set", f"model={{class_path: mean_nets.{name}}}"]
        )
        for name in ("Mean", "Each")
    )
    assert mean.exit_code == each.exit_code == 0, mean.output + each.output
    assert "one row at a time" in mean.output
    assert "per_sample_loss(self, batch)" in mean.output
    assert "one row at a time" not in each.output


def test_doctor_and_run_show_what_a_model_says_of_made_up_input(run, tmp_path, monkeypatch):
    (tmp_path / "word_nets.py").write_text(
        "from torch import nn\n\n\nclass Words(nn.Module):\n    def __init__(self):\n        "
        "super().__init__()\n"
        "        self.table = nn.Embedding(9, 3)\n\n    def forward(self, x):\n        return "
        "self.table(x).mean(1)\n"
    )
    monkeypatch.chdir(tmp_path)
    words = ["spec.yaml", "--set", "model={class_path: word_nets.Words}"]
    doctor, trained = (CliRunner().invoke(app, [command, *words]) for command in ("doctor", "run"))
    for command in (doctor, trained):
        assert command.exit_code == 2
        assert command.stderr.startswith(
            "word_nets.py:10: expected code that takes made-up inputs of float32 [n, 8], got "
            "RuntimeError: "
        )
        assert "Long, Int" in command.stderr
    assert not (tmp_path / "runs").exists()


def test_the_doctors_table_is_as_wide_as_it_must_be_and_names_a_kernel_once(run, tmp_path):
    shown = CliRunner().invoke(app, ["doctor", str(tmp_path / "spec.yaml")]).output.splitlines()
    assert shown[0].split() == ["parameter", "group", "held", "as", "values", "floats", "a", "row"]
    assert all(len(line) <= 80 for line in shown)
    convolution = ParameterReport("0.weight", 9, "all", "unfolded", "unfolded", 10)
    chosen = ParameterReport("1.weight", 9, "all", "unfolded", "gram", 10)
    text = report_text(EngineReport((convolution, chosen), {}))
    assert text.count("unfolded") == 2
    assert "unfolded by gram" in text
