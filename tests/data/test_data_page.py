"""The page about data and models: every YAML block on it is read by the kind it names, and its class works."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import ClassVar

import numpy
import pytest
import yaml
from typer.testing import CliRunner

from dppipe.cli.app import app
from dppipe.data import ClassPathData
from dppipe.spec.component_field import split_kind
from dppipe.spec.kinds.families import FAMILIES
from dppipe.spec.kinds.registry import Registry, built_in_kinds

PAGE = (Path(__file__).parents[2] / "docs" / "data.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```yaml\n(.*?)```", PAGE, flags=re.DOTALL)


class Yaml(yaml.SafeLoader):
    """Reads a date as its text, as dppipe does."""

    yaml_implicit_resolvers: ClassVar = {
        first: [(tag, pattern) for tag, pattern in found if not tag.endswith("timestamp")]
        for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


@pytest.mark.parametrize("text", BLOCKS)
def test_every_block_is_read_by_its_kind(text: str) -> None:
    ((block, value),) = yaml.load(text, Loader=Yaml).items()
    if block not in FAMILIES:
        block, value = "loss", value["loss"]  # of `train`
    kind, options = split_kind(block, value)
    made = Registry().load(block, kind).from_data(options)
    if block == "data" and kind not in (
        "cifar",
        "class_path",
        "idx",
        "image_folder",
        "npy",
        "npz",
        "parquet",
    ):
        assert (made.train_users() if made.users else made.train_count()) > 0  # type: ignore[attr-defined]


def test_the_page_shows_every_kind() -> None:
    shown = {
        (block, split_kind(block, value)[0])
        for text in BLOCKS
        for block, value in yaml.load(text, Loader=Yaml).items()
        if block in FAMILIES
    }
    named = set(re.findall(r"`(\w+)`", PAGE))
    for block in ("data", "model"):
        assert {kind for where, kind in shown if where == block} == set(
            built_in_kinds(FAMILIES[block])
        )
    for block in ("loss", "optimizer", "schedule", "averaging"):
        assert named >= set(built_in_kinds(FAMILIES[block]))


def test_the_class_on_the_page_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    code = next(
        block
        for block in re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
        if "class Scans" in block
    )
    (tmp_path / "page_records.py").write_text(code)
    data = ClassPathData.from_data({"class_path": "page_records.Scans", "init_args": {"size": 50}})
    assert len(data.splits(seed=0).train) == data.train_count() == 40  # type: ignore[arg-type]


def test_the_same_class_is_a_plugin(tmp_path: Path) -> None:
    code = next(
        block
        for block in re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
        if "class Scans" in block
    )
    (tmp_path / "scans.py").write_text(
        code.replace("class Scans(Data):", 'class Scans(Data, kind="scans"):')
    )
    data = Registry(tmp_path).load("data", "scans").from_data({"size": 20})
    assert data.train_count() == 16  # type: ignore[attr-defined]


def test_the_sentences_on_the_page_pass_the_checks_of_plugins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (block,) = (
        code
        for code in re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
        if "class Sentences" in code
    )
    code = block.replace("class Sentences(Data):", 'class Sentences(Data, kind="sentences"):')
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "sentences.py").write_text(code)
    inputs = numpy.arange(200 * 64).reshape(200, 64) % 50
    numpy.savez(tmp_path / "words.npz", x=inputs, y=numpy.arange(200) % 2)
    words = ["plugins", "check", "plugins/sentences.py", "--set", "records=200"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output


def test_the_sentences_on_the_page_train_a_model_with_an_embedding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    code = next(
        block
        for block in re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
        if "class Sentences" in block
    )
    (tmp_path / "page_words.py").write_text(code)
    (tmp_path / "page_word_nets.py").write_text(
        "from torch import nn\n\n\nclass Bag(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.table, self.last = nn.Embedding(50, 4), nn.Linear(4, 1)\n\n"
        "    def forward(self, x):\n        return self.last(self.table(x).mean(1))\n"
    )
    numpy.savez(
        tmp_path / "words.npz", x=numpy.arange(1200).reshape(200, 6) % 50, y=numpy.arange(200) % 2
    )
    spec = {
        "version": 1,
        "name": "words",
        "data": {
            "class_path": "page_words.Sentences",
            "init_args": {"path": "words.npz", "words": 50, "length": 6},
            "records": 200,
        },
        "model": {"class_path": "page_word_nets.Bag"},
        "optimizer": "sgd",
        "sampler": {"kind": "poisson", "sample_rate": 0.2},
        "noise": {"kind": "constant", "noise_multiplier": 2.0},
        "accountant": "rdp",
        "budget": {"epsilon": 8, "delta": 1e-5},
        "train": {"steps": 2},
    }
    (tmp_path / "words.yaml").write_text(yaml.safe_dump(spec).replace("1.0e-05", "0.00001"))
    done = CliRunner().invoke(app, ["run", "words.yaml"])
    assert done.exit_code == 0, done.output
