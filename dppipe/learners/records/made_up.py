"""Made-up examples in the shape of a record: no value of the record goes into them.

They differ from each other in every number, and integers differ in length too, as padded texts do.
A check of whether rows see each other needs that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy
import torch
from torch import Tensor
from torch.utils._pytree import keystr, tree_flatten_with_path, tree_unflatten

from dppipe.data.reading.made_up import SEED
from dppipe.errors import UsageError

DISTINCT = 16
"""How many different examples are made up; a larger batch repeats them."""


def made_up_examples(example: Any, *, ranges: Any = None) -> list[Any]:
    """Return a few made-up examples with the structure, shapes and types of a record."""
    generator = torch.Generator().manual_seed(SEED)
    return [_like(example, ranges, row, generator) for row in range(DISTINCT)]


def made_up_row(record: Any, made_up: Any) -> Any:
    """Return a made-up row in the shapes and types of a record, which is a batch of one as well."""
    leaves, structure = tree_flatten_with_path(record)
    known = _tensors_by_path(tree_flatten_with_path(made_up)[0])
    differing = known.keys() ^ _tensors_by_path(leaves).keys()
    if differing:
        where = ", ".join(sorted(differing))
        raise UsageError(
            "data: expected records with the parts of the made-up ones of synthetic(n), "
            f"got a difference at batch{where}. Change the data set, or synthetic."
        )
    made: list[Any] = []
    for path, leaf in leaves:
        if isinstance(leaf, Tensor):
            made.append(_cast(known[keystr(path)], leaf))
        else:
            made.append("made up" if isinstance(leaf, str) else leaf)
    return tree_unflatten(made, structure)


def _tensors_by_path(leaves: Iterable[tuple[Any, Any]]) -> dict[str, Tensor]:
    return {keystr(path): leaf for path, leaf in leaves if isinstance(leaf, Tensor)}


def _cast(made_up: Tensor, record: Tensor) -> Tensor:
    if made_up.shape == record.shape:
        return made_up.to(record.dtype)
    if record.is_floating_point() or made_up.dim() != record.dim():
        return torch.randn(record.shape).to(record.dtype)
    cast = torch.zeros(record.shape, dtype=record.dtype)
    common = tuple(slice(size) for size in map(min, made_up.shape, record.shape))
    cast[common] = made_up[common].to(record.dtype)
    return cast


def _like(value: Any, limits: Any, row: int, generator: torch.Generator) -> Any:
    if isinstance(value, Mapping):
        inner = limits if isinstance(limits, Mapping) else {}
        return {name: _like(item, inner.get(name), row, generator) for name, item in value.items()}
    if isinstance(value, (tuple, list)):
        inside = limits if isinstance(limits, (tuple, list)) else [None] * len(value)
        items: list[Any] = []
        for item, limit in zip(value, inside, strict=True):
            items.append(_like(item, limit, row, generator))
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, (numpy.ndarray, numpy.generic)):
        made: Tensor = _like(torch.from_numpy(numpy.asarray(value)), limits, row, generator)
        return made.numpy()
    if isinstance(value, Tensor):
        return _tensor_like(value, limits, row, generator)
    if isinstance(value, (bool, int, float)):
        return _tensor_like(torch.as_tensor(value), limits, row, generator).item()
    return "made up" if isinstance(value, str) else value


def _tensor_like(value: Tensor, limits: Any, row: int, generator: torch.Generator) -> Tensor:
    if value.is_floating_point() or value.is_complex():
        return torch.randn(value.shape, dtype=value.dtype, generator=generator)
    low, high = (limits.start, limits.stop) if isinstance(limits, range) else (0, 2)
    if not value.dim():
        return torch.tensor(low + row % (high - low)).to(value.dtype)
    made = torch.randint(low, high, value.shape, generator=generator)
    length = value.shape[0] - row % max(1, value.shape[0] // 2)
    if low <= 0 < high:  # zero is the usual padding, and the usual mask of it
        made[length:] = 0
    if high > 1:
        made[:1] = 1
    return made.to(value.dtype)
