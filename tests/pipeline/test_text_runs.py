"""Whole runs on texts: predictions of raw rows equal the run's own scores, and tags come back."""

from __future__ import annotations

import json
from pathlib import Path

import numpy
import pyarrow
import pytest
import torch
from pyarrow import parquet
from typer.testing import CliRunner

import dppipe
from dppipe.cli.app import app
from dppipe.pipeline.load import load_network, spec_of
from dppipe.pipeline.prediction.predictor import class_probabilities
from dppipe.runs.directory import RunDirectory

WORDS = ["good", "bad", "film", "music", "book", "fine", "odd"]
SPEC = """
version: 1
name: texts
seed: 3
data:
  kind: text
  path: {path}
  records: 60
  holdout: public
  target: {target}
  tokenizer: {tokenizer}
  max_length: 5
  {more}
model: {model}
optimizer: {{kind: sgd, lr: 0.5}}
sampler: {{kind: poisson, sample_rate: 0.3}}
noise: {{kind: constant, noise_multiplier: 1.0}}
accountant: rdp
budget: {{epsilon: 90.0, delta: 1.0e-4}}
train: {{steps: 3}}
"""
CLASSES = "{column: label, classes: [no, yes, maybe]}"
CASES = {
    "words": (CLASSES, "words", "{kind: text_bag, mode: root_mean}"),
    "bytes": (CLASSES.replace(", maybe", ""), "bytes", "{kind: gru, embedding: 4, width: 3}"),
    "number": ("{column: size, mean: 4, std: 2}", "characters", "{kind: transformer, width: 8}"),
}


def made_up() -> list[dict[str, str]]:
    rng = numpy.random.default_rng(0)
    rows = []
    for row in range(60):
        said = rng.choice(WORDS, rng.integers(1, 9)).tolist()
        label = ["no", "yes"][row % 2]
        tags = " ".join("a" if len(word) == 3 else "b" for word in said)
        rows.append({"label": label, "text": " ".join(said), "size": str(row % 9), "tags": tags})
    return rows


def trained(folder: Path, spec: str) -> Path:
    (folder / "s.yaml").write_text(spec)
    done = CliRunner().invoke(app, ["run", str(folder / "s.yaml"), "--run-dir", str(folder / "r")])
    assert done.exit_code == 0, done.output
    return folder / "r"


def write_tsv(path: Path, rows: list[dict[str, str]], columns: list[str]) -> Path:
    lines = ["\t".join(columns)] + ["\t".join(row[name] for name in columns) for row in rows]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("case", CASES)
def test_raw_texts_in_any_order_and_format_get_the_runs_own_scores(
    case: str, tmp_path: Path
) -> None:
    target, tokenizer, model = CASES[case]
    rows = made_up()
    path = write_tsv(tmp_path / "t.tsv", rows, ["label", "text", "size"])
    options = {"target": target, "tokenizer": tokenizer, "model": model, "more": ""}
    run = trained(tmp_path, SPEC.format(path=path, **options))
    spec = spec_of(RunDirectory.open(run))
    inputs = spec.data.load()[:][0]  # type: ignore[index]
    with torch.inference_mode():
        wanted = load_network(RunDirectory.open(run), spec)(inputs).double()
    if case == "number":
        expected = wanted.numpy() * 2 + 4
    else:
        expected = class_probabilities(wanted, task=spec.data.task).numpy()
    order = numpy.random.default_rng(1).permutation(len(rows))
    shuffled = [rows[place] for place in order]
    new = write_tsv(tmp_path / "new.tsv", shuffled, ["size", "text"])
    with_lines = "\n".join(json.dumps({"text": row["text"]}) for row in shuffled)
    (tmp_path / "new.jsonl").write_text(with_lines)
    for file in (new, tmp_path / "new.jsonl"):
        out = tmp_path / f"{file.suffix}.parquet"
        done = CliRunner().invoke(app, ["predict", str(run), str(file), "--out", str(out)])
        assert done.exit_code == 0, done.output
        table = parquet.read_table(out)
        shown = [name for name in table.column_names if name.startswith("probability")]
        found = numpy.stack([table[name].to_numpy() for name in shown or ["prediction"]], axis=1)
        numpy.testing.assert_allclose(found, expected[order], atol=1e-6)
    loaded = dppipe.load_model(run)
    told = [row["text"] for row in shuffled]
    for given in (told, [{"text": one} for one in told], pyarrow.table({"text": told})):
        with torch.inference_mode():
            torch.testing.assert_close(loaded(given).double(), wanted[order], atol=1e-6, rtol=0)
    with torch.inference_mode():
        torch.testing.assert_close(loaded(inputs).double(), wanted, atol=1e-6, rtol=0)


def test_a_tagger_is_trained_evaluated_and_tags_new_texts(tmp_path: Path) -> None:
    rows = made_up()
    path = write_tsv(tmp_path / "t.tsv", rows, ["text", "tags"])
    spec = SPEC.format(
        path=path,
        target="{column: tags, classes: [a, b]}",
        tokenizer="{kind: words, split: spaces, buckets: 20}",
        model="{kind: lstm, embedding: 4, width: 3}",
        more="predict: words",
    )
    run = trained(tmp_path, spec)
    metrics = json.loads((run / "summary.json").read_text())["metrics"]
    assert 0 <= metrics["val/accuracy"] <= 1
    done = CliRunner().invoke(
        app, ["predict", str(run), str(path), "--out", str(tmp_path / "o.parquet")]
    )
    assert done.exit_code == 0, done.output
    tagged = parquet.read_table(tmp_path / "o.parquet")["prediction"].to_pylist()
    assert [len(one.split()) for one in tagged] == [
        min(5, len(row["text"].split())) for row in rows
    ]
    assert {tag for one in tagged for tag in one.split()} <= {"a", "b"}
    done = CliRunner().invoke(app, ["evaluate", str(run)])
    assert done.exit_code == 0, done.output
    done = CliRunner().invoke(app, ["attack", str(run), "--kind", "membership"])
    assert (done.exit_code, "one for each word" in " ".join(done.output.split())) == (2, True)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("model=logistic", "expected numbers as inputs of logistic, got token ids"),
        ("data.text=body", "expected one of 2 columns"),
    ],
)
def test_what_doesnt_suit_texts_is_found_before_a_record_is_read(
    change: str, said: str, tmp_path: Path
) -> None:
    path = write_tsv(tmp_path / "t.tsv", made_up(), ["text", "label"])
    options = {"target": CLASSES, "tokenizer": "words", "model": "text_bag", "more": ""}
    (tmp_path / "s.yaml").write_text(SPEC.format(path=path, **options))
    done = CliRunner().invoke(app, ["validate", str(tmp_path / "s.yaml"), "--set", change])
    assert done.exit_code == 2
    assert said in " ".join(done.output.split())


def test_learners_that_compute_with_inputs_take_no_token_ids(tmp_path: Path) -> None:
    path = write_tsv(tmp_path / "t.tsv", made_up(), ["text", "label"])
    options = {"target": CLASSES, "tokenizer": "words", "model": "text_bag", "more": ""}
    text = SPEC.format(path=path, **options)
    before, _ = text.split("model:")
    blocks = "learner: {kind: mean, max_norm: 1.0}\nbudget: {epsilon: 1.0, delta: 1.0e-4}\n"
    (tmp_path / "s.yaml").write_text(before + blocks)
    done = CliRunner().invoke(app, ["plan", str(tmp_path / "s.yaml")])
    said = " ".join(done.output.split())
    assert (done.exit_code, "expected inputs that are numbers for learner 'mean'" in said) == (
        2,
        True,
    ), said


def test_the_statement_names_the_vocabulary_as_a_public_file(tmp_path: Path) -> None:
    path = write_tsv(tmp_path / "t.tsv", made_up(), ["text", "label"])
    words = tmp_path / "words.txt"
    words.write_text("\n".join(WORDS))
    tokenizer = f"{{kind: vocabulary, path: {words}}}"
    options = {"target": CLASSES, "tokenizer": tokenizer, "model": "text_bag", "more": ""}
    run = trained(tmp_path, SPEC.format(path=path, **options))
    source = json.loads((run / "privacy.json").read_text())["source"]
    assert source["public_files"] == [str(words)]
    assert "files taken as public" in (run / "privacy.md").read_text()
