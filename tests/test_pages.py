"""Python code on the pages: it imports what it uses, and what is shown as complete runs."""

from __future__ import annotations

import ast
import builtins
import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from torch import nn
from torch.utils.data import TensorDataset

import dppipe

ROOT = Path(dppipe.__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
READERS_OWN = {"dataset", "images", "module", "private", "texts"}
"""What the text around a block says is the reader's own, or was made on the same page."""


def blocks(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)


BLOCKS = [
    pytest.param(block, id=f"{page.name}-{number}")
    for page in PAGES
    for number, block in enumerate(blocks(page), start=1)
]


def missing_names(code: str) -> set[str]:
    """Return the names that code reads and nothing in it defines."""
    read: set[str] = set()
    defined = set(dir(builtins)) | READERS_OWN
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            read.add(node.id)
        elif isinstance(node, ast.Name):
            defined.add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            defined.add(node.name)
        elif isinstance(node, ast.arg):
            defined.add(node.arg)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            defined |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
    return read - defined


@pytest.mark.parametrize("block", BLOCKS)
def test_a_block_of_python_imports_what_it_uses(block: str) -> None:
    assert not missing_names(block)


def test_a_missing_import_is_found() -> None:
    assert missing_names("import dppipe\ndppipe.DPCallback(sampler=Poisson())") == {"Poisson"}


class Mine(pl.LightningModule):
    """The reader's own module."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(5, 3)

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        return nn.functional.cross_entropy(self.layer(batch[0]), batch[1])

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


class Interrupts(Mine):
    """The same, with a Ctrl-C after its second step."""

    def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:
        if self.global_step == 2:
            os.kill(os.getpid(), signal.SIGINT)


def example(page: str, *, containing: str) -> str:
    """Return a block that trains, for a few steps and without a bar on the console."""
    (code,) = [block for block in blocks(ROOT / page) if containing in block]
    quiet = "accelerator='cpu', logger=False, enable_progress_bar=False, enable_checkpointing=False"
    shorter = code.replace("max_steps=1000", f"max_steps=5, {quiet}")
    assert shorter != code
    return shorter


@pytest.mark.filterwarnings("ignore:You.re resuming from a checkpoint that ended before the epoch")
def test_the_examples_in_python_train_and_go_on_with_a_run(
    tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    dataset = TensorDataset(torch.randn(200, 5), torch.randint(3, (200,)))
    begun: dict[str, Any] = {"module": Interrupts(), "dataset": dataset}
    code = example("README.md", containing="DPCallback")
    kept = [line for line in code.splitlines() if not line.startswith("module, dataset =")]
    exec("\n".join(kept), begun)
    assert begun["private"].outcome.status == "interrupted"
    resumed: dict[str, Any] = {"module": Mine(), "dataset": dataset}
    exec(example("docs/data.md", containing="resume=run"), resumed)
    assert resumed["private"].outcome.status == "completed"
    assert resumed["private"].outcome.steps == 5


def test_the_readmes_example_runs_as_it_stands(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    made: dict[str, Any] = {}
    exec(example("README.md", containing="DPCallback"), made)
    assert made["private"].outcome.status == "completed"


def test_the_page_of_the_callback_names_every_argument_and_no_other() -> None:
    import inspect

    page = (ROOT / "docs/callback.md").read_text(encoding="utf-8")
    table = page.partition("## Arguments")[2].partition("## ")[0]
    named = re.findall(r"^\| `(\w+)` \|", table, flags=re.MULTILINE)
    assert named == sorted(named, key=named.index)
    assert set(named) == set(inspect.signature(dppipe.DPCallback).parameters)
