"""Texts become token ids of one length, each record on its own, from every format of file."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import numpy
import pyarrow
import pytest
import torch
import yaml
from pyarrow import parquet
from pydantic import ValidationError

from dppipe.data import Text
from dppipe.data.base import Splits
from dppipe.data.reading.tasks import NO_TAG
from dppipe.data.reading.users import users_of
from dppipe.data.reading.validity import valid_of
from dppipe.data.texts.tokenizers.option import KINDS

PAGE = (Path(__file__).parents[2] / "docs" / "text.md").read_text(encoding="utf-8")
ROWS = [
    {"text": 'She said "fine", twice.', "label": "good", "who": "u1"},
    {"text": "a b c d e f g h", "label": "bad", "who": "u2"},
    {"text": "", "label": "bad", "who": "u1"},
    {"text": "größer, schöner", "label": "good", "who": "u3"},
]


def write(folder: Path, name: str, rows: list[dict[str, Any]] = ROWS) -> Path:
    path = folder / name
    if name.endswith(".parquet"):
        parquet.write_table(pyarrow.Table.from_pylist(rows), path)
        return path
    if "json" in name:
        text = "\n".join(json.dumps(row) for row in rows)
    elif "tsv" in name:
        text = "\n".join("\t".join(row.values()) for row in [dict.fromkeys(rows[0], ""), *rows])
        text = "\t".join(rows[0]) + text[text.index("\n") :]
    else:
        quoted = [
            [f'"{one.replace(chr(34), chr(34) * 2)}"' for one in row.values()] for row in rows
        ]
        text = "\n".join([",".join(rows[0]), *map(",".join, quoted)])
    data = text.encode()
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


def texts(path: Path, **options: Any) -> Text:
    return Text.from_data(
        {
            "path": str(path),
            "records": len(ROWS),
            "target": {"column": "label", "classes": ["bad", "good"]},
            "max_length": 6,
            **options,
        }
    )


FORMATS = ["t.csv", "t.tsv", "t.jsonl", "t.parquet", "t.csv.gz", "t.tsv.gz", "t.ndjson.gz"]


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_holds_the_same_records(name: str, tmp_path: Path) -> None:
    inputs, targets = texts(write(tmp_path, name), user="who").load()[:]  # type: ignore[index]
    expected = texts(write(tmp_path, "other.parquet")).load()[:]  # type: ignore[index]
    assert inputs.dtype == torch.int64
    assert torch.equal(inputs, expected[0])
    assert targets.tolist() == [1, 0, 0, 1]
    assert (inputs[1] > 0).all()
    assert (inputs[2] == 0).all()
    assert users_of(texts(write(tmp_path, name), user="who").load()).tolist() == [0, 1, 0, 2]  # type: ignore[arg-type, union-attr]


def test_a_text_is_cut_at_the_end_that_isnt_kept(tmp_path: Path) -> None:
    path = write(tmp_path, "t.jsonl")
    options = {"tokenizer": {"kind": "characters", "alphabet": "abcdefgh "}, "max_length": 3}
    start = texts(path, **options).load()[1][0]  # type: ignore[index]
    end = texts(path, keep="end", **options).load()[1][0]  # type: ignore[index]
    assert (start.tolist(), end.tolist()) == ([1, 9, 2], [7, 9, 8])


def test_several_columns_are_one_text(tmp_path: Path) -> None:
    path = write(tmp_path, "t.csv")
    both = texts(path, text=["text", "who"], max_length=20).load()[:][0]  # type: ignore[index]
    joined = [{**row, "text": f"{row['text']}\n{row['who']}"} for row in ROWS]
    path = write(tmp_path, "t.jsonl", joined)
    assert torch.equal(both, texts(path, max_length=20).load()[:][0])  # type: ignore[index]


def test_a_record_becomes_the_same_whatever_stands_beside_it(tmp_path: Path) -> None:
    whole = texts(write(tmp_path, "a.jsonl")).load()[:]  # type: ignore[index]
    other = [{**row, "text": "other words"} for row in ROWS[:3]]
    changed = texts(write(tmp_path, "b.jsonl", [*other, ROWS[3]])).load()[:]  # type: ignore[index]
    assert torch.equal(whole[0][3], changed[0][3])


def test_a_dropped_record_keeps_its_place(tmp_path: Path) -> None:
    rows = [dict(row) for row in ROWS]
    rows[1]["label"] = "ugly"
    data = texts(write(tmp_path, "t.csv", rows), on_bad_record="drop").load()
    assert len(data) == len(ROWS)  # type: ignore[arg-type]
    assert numpy.asarray(valid_of(data)).tolist() == [True, False, True, True]  # type: ignore[arg-type]


def test_words_are_tagged_and_padding_has_no_tag(tmp_path: Path) -> None:
    rows = [{"text": "a cat  sat", "label": "x n v"}, {"text": "b", "label": "n"}]
    data = texts(
        write(tmp_path, "t.jsonl", rows),
        records=2,
        predict="words",
        target={"column": "label", "classes": ["n", "v", "x"]},
        tokenizer={"kind": "words", "split": "spaces"},
        max_length=2,
        keep="end",
    )
    inputs, tags = data.load()[:]  # type: ignore[index]
    assert (data.task, data.outputs, data.input_layout.per_token) == ("tagging", 3, True)
    assert tags.tolist() == [[0, 1], [0, NO_TAG]]
    assert ((inputs == 0) == (tags == NO_TAG)).all()
    made, made_tags = data.synthetic(4)
    assert ((made == 0) == (made_tags == NO_TAG)).all()


def test_a_regression_is_in_units_of_its_constants(tmp_path: Path) -> None:
    rows = [{"text": "a", "label": 3.0}, {"text": "b", "label": 7.0}]
    target = {"column": "label", "mean": 5, "std": 2}
    data = texts(write(tmp_path, "t.parquet", rows), records=2, target=target)
    assert data.load()[:][1].tolist() == [[-1.0], [1.0]]  # type: ignore[index]
    assert data.task == "regression"


def test_a_second_file_holds_the_test_records(tmp_path: Path) -> None:
    split = {"train": 0.75, "val": 0.25, "test": 0}
    test = write(tmp_path, "b.jsonl", ROWS[:3])
    data = texts(write(tmp_path, "a.tsv"), test_path=str(test), split=split)
    parts = data.splits(seed=1)
    assert isinstance(parts, Splits)
    assert [len(part) for part in parts] == [3, 1, 3]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"predict": "words"}, "a tokenizer with one token for each word"),
        ({"predict": "words", "target": {"column": "label"}}, "target.classes beside predict"),
        ({"text": ["text", "label"]}, "each column once"),
        ({"users": 3}, "user, a column"),
        ({"test_path": "b.tsv"}, "split.test to be 0"),
        ({"tokenizer": "word"}, "Did you mean"),
    ],
)
def test_options_that_dont_fit_are_refused(options: dict[str, Any], said: str) -> None:
    given = {"tokenizer": {"kind": "words", "split": "spaces", "ngrams": 2}, **options}
    with pytest.raises(ValidationError, match=said):
        texts(Path("t.tsv"), **given)


@pytest.mark.parametrize("block", re.findall(r"```yaml\n(.*?)```", PAGE, flags=re.DOTALL))
def test_every_block_on_the_page_of_texts_is_read(block: str) -> None:
    options = yaml.safe_load(block)["data"]
    assert options.pop("kind") == "text"
    assert Text.from_data(options).train_count() > 0


def test_the_page_of_texts_names_every_tokenizer() -> None:
    assert set(KINDS) <= set(re.findall(r"^\| `(\w+)` \|", PAGE, flags=re.MULTILINE))
