"""The examples in docstrings: every public entry point has a short one, and each of them runs."""

from __future__ import annotations

import doctest
import importlib
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import pytorch_lightning as pl
import torch
from torch import nn
from torch.utils.data import TensorDataset

import dppipe
from dppipe.pipeline.run import run_spec
from dppipe.planning.privacy_plan import make_plan
from dppipe.spec import load_spec

ROOT = Path(dppipe.__file__).parents[1]
QUIET = "logger=False, enable_progress_bar=False, enable_model_summary=False"
"""What keeps a Trainer from printing between the lines of an example."""
MOST_LINES = 8
"""The most lines of code in one example, imports included."""

ENTRY_POINTS = [
    *(f"dppipe.{name}" for name in dppipe.__all__ if name not in ("Field", "__version__")),
    "dppipe.budgets.Store",
    "dppipe.engine.check_engine",
    "dppipe.engine.clipped_sum",
    "dppipe.engine.singleton_loss",
    "dppipe.pipeline.evaluate.evaluate_run",
    "dppipe.pipeline.run.run_spec",
    "dppipe.planning.privacy_plan.make_plan",
    "dppipe.plugin_kit.check_file",
    "dppipe.plugin_kit.list_kinds",
    "dppipe.plugin_kit.write_plugin",
    "dppipe.privacy.accountants.Accountant",
    "dppipe.privacy.calibration.calibrate",
    "dppipe.privacy.filters.step_filters.Odometer",
    "dppipe.privacy.pld.compose",
    "dppipe.runs.verify.verify_ledger",
    "dppipe.sampling.Sampler",
    "dppipe.spec.Registry",
    "dppipe.spec.json_schema",
    "dppipe.spec.load_spec",
    "dppipe.spec.spec_from_text",
    "dppipe.spec.spec_hash",
]
"""What users call or derive from. `dppipe.Field` is pydantic's own, and has pydantic's docstring."""


def find_examples() -> Iterator[doctest.DocTest]:
    finder = doctest.DocTestFinder(exclude_empty=True)
    for path in sorted((ROOT / "dppipe").rglob("*.py")):
        if ">>> " in path.read_text(encoding="utf-8"):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            for found in finder.find(importlib.import_module(name), globs={}):
                if found.examples:
                    yield found


EXAMPLES = list(find_examples())


class Line(pl.LightningModule):
    """A module of the reader's own."""

    def __init__(self) -> None:
        super().__init__()
        self.line = nn.Linear(3, 1)

    def training_step(self, batch: list[torch.Tensor], index: int) -> torch.Tensor:
        inputs, targets = batch
        return nn.functional.mse_loss(self.line(inputs).squeeze(1), targets)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as a reader may have it: this repository's pipelines and plugins, and a run."""
    made = tmp_path_factory.mktemp("reader")
    shutil.copytree(ROOT / "pipelines", made / "pipelines")
    shutil.copytree(
        ROOT / "plugins", made / "plugins", ignore=shutil.ignore_patterns("__pycache__")
    )
    spec = load_spec(made / "pipelines/quickstart.yaml", overrides=["train.epochs=1"])
    run_spec(spec, make_plan(spec), run_dir=made / "runs/first")
    return made


@pytest.mark.parametrize("name", ENTRY_POINTS)
def test_every_public_entry_point_has_an_example(name: str) -> None:
    module, _, attribute = name.rpartition(".")
    entry = getattr(importlib.import_module(module), attribute)
    assert ">>> " in (entry.__doc__ or "")


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_an_example_is_short(example: doctest.DocTest) -> None:
    lines = [line for each in example.examples for line in each.source.splitlines()]
    assert len(lines) <= MOST_LINES
    assert max(map(len, lines)) <= 100


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_an_example_runs_and_shows_what_it_says(
    example: doctest.DocTest, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    dataset = TensorDataset(torch.randn(200, 3), torch.randn(200))
    example.globs = {"__name__": "example", "module": Line(), "dataset": dataset}
    for line in example.examples:
        line.source = line.source.replace("pl.Trainer(", f"pl.Trainer({QUIET}, ")
    said: list[str] = []
    result = doctest.DocTestRunner().run(example, out=said.append)
    assert result.failed == 0, "".join(said)
