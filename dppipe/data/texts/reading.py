"""Read a file of texts whole, as a dataset in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from dppipe.data.reading.bad_records import DROP, NOTICE, bad_record
from dppipe.data.reading.users import with_users
from dppipe.data.reading.validity import with_valid
from dppipe.errors import UsageError

if TYPE_CHECKING:
    import numpy
    from torch.utils.data import TensorDataset

    from dppipe.data.tables.blocks import Columns, TableFile
    from dppipe.data.texts.encoding import TextInputs


def misfit_notice(*, drop: bool, by_users: bool) -> str | None:
    """Return what a message adds about a record that can't be read; None to drop it."""
    if not drop:
        return DROP
    if by_users:
        return f"{NOTICE} It can't be dropped: nobody can tell whose record it is."
    return None


def read_texts(
    table: TableFile, inputs: TextInputs, names: Columns, *, drop: bool, by_users: bool
) -> TensorDataset:
    """Return all records; one that can't be used is refused, or keeps its place with a mark."""
    import numpy

    from dppipe.data.tables.rows import GrowingRows
    from dppipe.data.texts.encoding import sound_texts

    is_number = inputs.target.classes is None
    x = GrowingRows(inputs.length, numpy.int64)
    width = inputs.length if inputs.tags_words else 1
    y = GrowingRows(width, numpy.float32 if is_number else numpy.int64)
    valid = GrowingRows(1, numpy.bool_)
    users: list[numpy.ndarray] = []
    for block in table.blocks(names, misfit_notice=misfit_notice(drop=drop, by_users=by_users)):
        found = inputs.encode(block)
        if found.fault is not None and not drop:
            place = table.place(block.first + found.fault.row, found.fault.column)
            raise bad_record(place, found.fault.message)
        x.append(found.inputs)
        y.append(cast("numpy.ndarray", found.targets))
        valid.append(found.valid[:, None])
        if by_users:
            ids = sound_texts(block.values[-1])[0].fill_null("")
            users.append(numpy.asarray(ids.to_pylist()))
    marks = valid.finish()[:, 0]
    if not marks.any():
        got = "none" if not len(marks) else f"none of {len(marks)} that can be used"
        raise UsageError(f"{table.path}: expected records, got {got}. Is it the right file?")
    made = _dataset(x.finish(), y.finish(), inputs)
    if drop:
        made = with_valid(made, marks)
    if by_users:
        made = cast("TensorDataset", with_users(made, numpy.concatenate(users)))
    return made


def _dataset(ids: numpy.ndarray, targets: numpy.ndarray, inputs: TextInputs) -> TensorDataset:
    import numpy
    import torch
    from torch.utils.data import TensorDataset

    if not inputs.tags_words and inputs.target.classes is not None:
        targets = targets[:, 0]
        if len(inputs.target.class_names) == 2:
            targets = targets.astype(numpy.float32)
    made = TensorDataset(torch.from_numpy(ids), torch.from_numpy(targets))
    made.is_fresh = True  # type: ignore[attr-defined]  # nobody else holds its tensors
    return made
