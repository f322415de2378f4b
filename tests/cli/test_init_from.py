"""`dppipe init --from`: a spec from the schema of a table alone."""

from __future__ import annotations

import datetime
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet
from typer.testing import CliRunner

from dppipe.cli.app import app
from dppipe.spec.load import load_spec

SECRET = "secret-4711"


def write_parquet(path: Path, secret: str) -> None:
    table = pyarrow.table(
        {
            "age": [47, 11],
            "ward": pyarrow.array([secret, "B"]).dictionary_encode(),
            "smoker": [True, None],
            "admitted": [datetime.date(2021, 5, 5)] * 2,
            "no": [1.5, 2.5],
            "with space": ["x", secret],
            "ill": ["no", "yes"],
        }
    )
    parquet.write_table(table.replace_schema_metadata({"pandas": secret}), path)


def init(tmp_path: Path, table: str):
    return CliRunner().invoke(
        app, ["init", str(tmp_path / "spec.yaml"), "--from", str(tmp_path / table)]
    )


def test_a_spec_depends_on_the_schema_of_a_parquet_file_alone(tmp_path):
    written = []
    for secret in (SECRET, "another"):
        write_parquet(tmp_path / "t.parquet", secret)
        assert init(tmp_path, "t.parquet").exit_code == 0
        written.append((tmp_path / "spec.yaml").read_text())
        (tmp_path / "spec.yaml").unlink()
    assert written[0] == written[1]
    assert SECRET not in written[0]
    for line in (
        "- {column: age, lower: TODO, upper: TODO}    # int64",
        "- {column: ward, values: [TODO]}",
        "- {column: smoker}    # bool",
        "- {column: admitted, earliest: TODO, latest: TODO}    # date32",
        '- {column: "no", lower: TODO',
        '- {column: "with space", values: [TODO]}',
    ):
        assert line in written[0]


def test_the_spec_is_valid_once_each_todo_is_replaced(tmp_path):
    write_parquet(tmp_path / "t.parquet", SECRET)
    init(tmp_path, "t.parquet")
    text = (tmp_path / "spec.yaml").read_text()
    text = text.replace("    - {column: ill, values: [TODO]}", "    #")
    text = text.replace(
        "{column: TODO, classes: [TODO, TODO]}", "{column: ill, classes: ['no', 'yes']}"
    )
    text = text.replace("lower: TODO, upper: TODO", "lower: 0, upper: 100")
    text = text.replace("values: [TODO]", "buckets: 8")
    text = text.replace("earliest: TODO, latest: TODO", "earliest: 2020-01-01, latest: 2022-01-01")
    text = text.replace("expected_batch_size: 256", "expected_batch_size: 1")
    (tmp_path / "spec.yaml").write_text(text)
    spec = load_spec(tmp_path / "spec.yaml")
    assert spec.data.input_shape == (1 + 1 + 8 + 8 + 1 + 1,)


def test_of_a_csv_file_only_the_first_line_is_read(tmp_path):
    (tmp_path / "t.csv").write_bytes(b"age;ward;ill\n" + SECRET.encode() + b";\xff\xfe\n")
    result = init(tmp_path, "t.csv")
    assert result.exit_code == 0
    assert "If that is a record" in result.output
    text = (tmp_path / "spec.yaml").read_text()
    assert SECRET not in text
    assert 'delimiter: ";"' in text
    assert "- {column: ward, lower: TODO, upper: TODO}    # TODO: which type?" in text


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("no.csv", None, "Correct the path"),
        ("t.csv", b"", "expected a first line"),
        ("t.csv", b"\xff\xfe,a\n", "expected UTF-8"),
        ("t.parquet", b"PAR1", "expected a whole parquet file"),
    ],
)
def test_a_table_that_cannot_be_read_is_named_and_nothing_is_written(
    tmp_path, name, content, message
):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    result = init(tmp_path, name)
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())
    assert not (tmp_path / "spec.yaml").exists()
