"""Runs of a learner on a frozen public network: they leave it public."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from learners.small_learners import WIDTH, write_spec
from learners.test_exponential import run_of
from torch import nn


def test_frozen_layers_are_not_taken_for_what_a_run_has_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DPPIPE_STORE", str(tmp_path / "store" / "budgets.db"))
    path = write_spec(tmp_path, "mean")
    torch.manual_seed(0)
    public = nn.Sequential(nn.Flatten(), nn.Linear(WIDTH, 4), nn.ReLU(), nn.Linear(4, 1))
    torch.save(public.state_dict(), tmp_path / "public.pt")
    model = (
        f"model: {{kind: mlp, hidden: [4], pretrained: {tmp_path}/public.pt, trainable: ['3.*']}}"
    )
    learner = "learner: {kind: output_perturbation, regularization: 10.0}"
    text = path.read_text().replace("learner: {kind: mean, max_norm: 2.0}", f"{model}\n{learner}")
    path.write_text(text)
    for name in ("first", "second"):
        plan = json.loads((run_of(path, name=name) / "plan.json").read_text())
        assert plan["earlier"] is None
    finished = (tmp_path / "store" / "finished_runs.jsonl").read_text().splitlines()
    assert [len(json.loads(line)["hashes"]) for line in finished] == [1, 1]
