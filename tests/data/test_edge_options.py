"""Options of columns at the edges of their ranges: each is taken as stated, for every kind."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy
import pytest

from dppipe.data import Csv
from dppipe.errors import UsageError

TARGET = {"column": "y", "classes": ["no", "yes"]}
CELLS = ["0", "-0", "-7.5", "1e-30", "3e30", "", "NA", "4"]
ABSENT = {"", "NA"}
MEANS = [0, 0.0, -0.0, -2.5, 1e-30, 3]
DEVIATIONS = [1, 1e-6, 1e6, 0.5]
FILLS = [0, 0.0, -0.0, -1, -2.5, 1e-30, -1e30, 1]


def table(folder: Path, text: str, **options: Any) -> Csv:
    path = folder / "d.csv"
    path.write_text(text, encoding="utf-8")
    return Csv.from_data({"path": str(path), "missing": ["", "NA"], "target": TARGET, **options})


def column_of(cells: list[str], *, label: str = "no") -> str:
    return "x,y\n" + "".join(f'"{cell}",{label}\n' for cell in cells)


def scaled(cells: list[str], *, mean: float, std: float, fill: float | None = None) -> list[float]:
    """Return what a column should hold, worked out in float64 and rounded once."""
    numbers = [fill if cell in ABSENT else float(cell) for cell in cells]
    return numpy.array([(number - mean) / std for number in numbers], numpy.float32).tolist()


def loaded(data: Csv) -> tuple[list[Any], list[Any]]:
    inputs, targets = data.load().tensors  # type: ignore[union-attr]
    return inputs.tolist(), targets.flatten().tolist()


@pytest.mark.parametrize("on_bad_record", ["refuse", "drop"])
def test_mean_deviation_and_fill_are_taken_as_stated(tmp_path: Path, on_bad_record: str) -> None:
    for mean, std, fill in product(MEANS, DEVIATIONS, FILLS):
        column = {"column": "x", "mean": mean, "std": std, "fill": fill}
        data = table(tmp_path, column_of(CELLS), numeric=[column], on_bad_record=on_bad_record)
        (numbers,) = zip(*loaded(data)[0], strict=True)
        assert list(numbers) == scaled(CELLS, mean=mean, std=std, fill=fill), column


@pytest.mark.parametrize("fill", [None, *FILLS])
@pytest.mark.parametrize("place", range(3))
def test_each_column_has_its_own_fill_and_only_one_without_it_misses_a_value(
    tmp_path: Path,
    fill: float | None,
    place: int,
) -> None:
    columns: list[dict[str, Any]] = [{"column": f"x{number}", "fill": 9} for number in range(3)]
    columns[place]["fill"] = fill
    text = "x0,x1,x2,y\n1,2,3,no\n,,,yes\n"
    data = table(tmp_path, text, numeric=columns)
    if fill is None:
        with pytest.raises(UsageError, match=rf"line 3, column {place + 1} .*got a missing value"):
            data.load()
        return
    filled = [9.0] * 3
    filled[place] = float(numpy.float32(fill))
    assert loaded(data) == ([[1, 2, 3], filled], [0, 1])


@pytest.mark.parametrize("fill", [None, *FILLS])
def test_with_bad_records_dropped_a_missing_value_counts_only_where_it_is_filled(
    tmp_path: Path,
    fill: float | None,
) -> None:
    from dppipe.data.reading.validity import valid_of

    column = {"column": "x", "fill": fill}
    data = table(
        tmp_path,
        column_of(["1", "", "oops", "2"]),
        numeric=[column],
        on_bad_record="drop",
    )
    assert valid_of(data.load()).tolist() == [True, fill is not None, False, True]


@pytest.mark.parametrize("mean", MEANS)
@pytest.mark.parametrize("std", DEVIATIONS)
def test_a_number_to_predict_is_scaled_as_stated_and_never_filled(
    tmp_path: Path,
    mean: float,
    std: float,
) -> None:
    cells = [cell for cell in CELLS if cell not in ABSENT]
    target = {"column": "x", "mean": mean, "std": std}
    words = [{"column": "y", "values": ["no", "0"]}]
    data = table(tmp_path, column_of(cells), categorical=words, target=target)
    assert loaded(data) == ([[1, 0]] * len(cells), scaled(cells, mean=mean, std=std))
    with pytest.raises(UsageError, match=r"line 3.*missing value"):
        table(tmp_path, column_of(["1", "NA"]), categorical=words, target=target).load()


@pytest.mark.parametrize(
    "values",
    [["0"], ["", "0"], ["0", ""], [0, 1], ["NA", "-0", "0", "00"], ["~", "null", "False"]],
)
def test_words_that_could_pass_for_nothing_are_values_and_classes_like_others(
    tmp_path: Path,
    values: list[Any],
) -> None:
    words = [str(value) for value in values]
    one_each = numpy.eye(len(words)).tolist()
    data = table(
        tmp_path,
        column_of([*words, "other"]),
        categorical=[{"column": "x", "values": values}],
    )
    assert loaded(data)[0] == [*one_each, [0] * len(words)]
    if len(words) > 1:
        text = "".join(f'1,"{word}"\n' for word in words)
        numbers, target = [{"column": "x"}], {"column": "y", "classes": values}
        data = table(tmp_path, "x,y\n" + text, numeric=numbers, target=target)
        assert loaded(data)[1] == list(range(len(words)))


def test_a_listed_missing_text_is_missing_though_it_is_a_number(tmp_path: Path) -> None:
    for missing in (["0"], ["-1"], [" 0 ", "-1"]):
        column = {"column": "x", "fill": 5}
        data = table(tmp_path, column_of(["0", "-1", "0.0"]), numeric=[column], missing=missing)
        given = {text.strip() for text in missing}
        expected = [5.0 if text in given else float(text) for text in ("0", "-1", "0.0")]
        assert [row[0] for row in loaded(data)[0]] == expected
