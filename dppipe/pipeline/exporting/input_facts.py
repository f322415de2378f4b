"""What an exported model takes and returns, as plain data: shapes, scaling, columns, classes.

Guarantee: all of it is options of the spec, and what the run has released.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from dppipe.data.base import Data
    from dppipe.data.columns.options import TableOptions

_BUCKET = "the first 8 bytes of BLAKE2b (digest_size=8) of the text in UTF-8, big-endian, modulo "


def input_facts(data: Data) -> dict[str, Any]:
    """Return what a model of raw inputs takes, and what its outputs mean."""
    facts: dict[str, Any] = {
        "kind": data.kind,
        "shape": list(data.input_shape),
        "task": data.task,
        "classes": list(data.class_labels),
        "outputs": _meaning(data),
    }
    if hasattr(data, "encode_rows") and hasattr(data, "inputs"):
        table = cast("TableOptions", data)
        facts["missing"] = list(table.missing)
        facts["columns"] = column_facts(table)
    return facts


def _meaning(data: Data) -> str:
    """Return how outputs become predictions."""
    if data.task == "multiclass":
        return "one logit for each class: softmax makes them probabilities"
    if data.task == "binary":
        return "the logit of the second class: a sigmoid makes it a probability"
    target = getattr(data, "target", None)
    if target is None:
        return "the predicted numbers"
    return f"the predicted number, less {target.mean:g} and over {target.std:g}"


def column_facts(data: TableOptions) -> list[dict[str, Any]]:
    """Return the inputs in their order: which column each comes from, and how it is encoded."""
    inputs = data.inputs
    found: list[dict[str, Any]] = []
    place = 0
    for column in inputs.columns:
        width = inputs.width_of(column)
        found.append(
            {
                "inputs": list(range(place, place + width)),
                "kind": type(column).__name__.lower(),
                **column.model_dump(mode="json", exclude_none=True),
                "encoding": _encoding(column, codes=inputs.categories == "codes"),
            }
        )
        place += width
    for column in inputs.marked:
        found.append(
            {
                "inputs": [place],
                "kind": "indicator",
                "column": column.column,
                "encoding": "1 where the value is missing, else 0",
            }
        )
        place += 1
    return found


def _encoding(column: Any, *, codes: bool) -> str:
    """Return in words how a value becomes an input of the graph."""
    kind = type(column).__name__.lower()
    filled = "; a missing value is `fill`" if getattr(column, "fill", None) is not None else ""
    if kind == "numeric":
        return f"the number itself: the graph holds it to its limits and scales it{filled}"
    if kind == "ordinal":
        return f"the value's place in `values`, from 0 for the first to 1 for the last{filled}"
    if kind == "boolean":
        return f"1 for a text of `true`, 0 for one of `false`{filled}"
    if kind == "date":
        return (
            f"days, held to `earliest` and `latest`, which become -1 and 1, in proportion{filled}"
        )
    return _category(column, codes=codes)


def _category(column: Any, *, codes: bool) -> str:
    """Return in words how a word becomes a category, and a category inputs."""
    number = "its place in `values`"
    last = len(column.values or ())
    if column.buckets is not None:
        number = f"{_BUCKET}{column.buckets}"
        last = column.buckets
    said = [f"a text's category is {number}, from 0"]
    if column.other == "category":
        said.append(f"another text's is {last}")
        last += 1
    if column.absent == "category":
        said.append(f"a missing value's is {last}")
    if codes:
        said.append("the input is the category plus 1, or 0 where there is none")
    else:
        said.append("the input of the category is 1, all others are 0")
    return "; ".join(said)
