"""The bytes of a record: equal for equal records, different for others, in every version.

A record is a tree of tensors, arrays, numbers and texts. Its bytes are a header, which says how the
tree is built and how long each leaf is, and then the contents of the leaves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

Leaf = tuple[str, bytes]
"""What a leaf is, and its content."""


def encode_record(record: Any) -> bytes:
    """Return the bytes of a record; a TypeError says that it holds something else than data."""
    leaves = list(_leaves(record))
    header = encode_header([f"{name}:{len(content)}" for name, content in leaves])
    return header + b"".join(content for _, content in leaves)


def encode_header(parts: Sequence[str]) -> bytes:
    """Return the header of a record whose tree has these parts."""
    return ";".join(parts).encode() + b"\n"


def row_header(tensors: Sequence[Tensor]) -> bytes:
    """Return the header of every row of these tensors, as `encode_record` would write it."""
    parts = [f"sequence {len(tensors)}:0"]
    for tensor in tensors:
        row = tensor[0]
        parts.append(f"{_tensor_name(row)}:{row.numel() * row.element_size()}")
    return encode_header(parts)


def _leaves(node: Any) -> Iterator[Leaf]:
    """Yield the nodes of a tree from its root to its leaves; the names alone describe the tree."""
    import numpy
    import torch

    if isinstance(node, torch.Tensor):
        whole = node.detach().cpu().contiguous()
        yield _tensor_name(node), whole.reshape(-1).view(torch.uint8).numpy().tobytes()
    elif isinstance(node, numpy.ndarray | numpy.generic):
        array = numpy.asarray(node)
        if array.dtype.hasobject:
            raise TypeError("an array of Python objects has no bytes of its own")
        yield f"array {array.dtype.str} {list(array.shape)}", array.tobytes()
    elif node is None or isinstance(node, bool | int | float | complex):
        yield type(node).__name__, repr(node).encode()
    elif isinstance(node, str):
        yield "text", node.encode("utf-8", "surrogatepass")
    elif isinstance(node, bytes | bytearray):
        yield "bytes", bytes(node)
    elif isinstance(node, Mapping):
        keys = sorted(node, key=repr)
        yield f"mapping {len(keys)}", b""
        for key in keys:
            yield from _leaves(key)
            yield from _leaves(node[key])
    elif isinstance(node, list | tuple):
        yield f"sequence {len(node)}", b""
        for item in node:
            yield from _leaves(item)
    else:
        raise TypeError(f"{type(node).__name__} is neither a tensor, an array, a number nor a text")


def _tensor_name(tensor: Tensor) -> str:
    return f"tensor {str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"
