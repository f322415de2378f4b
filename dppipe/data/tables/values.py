"""From the values of one column to texts and numbers, a block at a time.

White space around texts doesn't count. A value that is missing, in the file's own way or by a text
that means it, is neither a text nor a number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy
    import pyarrow
    from numpy.typing import NDArray


def texts_of(values: pyarrow.Array) -> pyarrow.Array:
    """Return values as texts without the white space around them; a missing one stays null."""
    import pyarrow
    from pyarrow import compute

    decoded = _decoded(values)
    if not pyarrow.types.is_string(decoded.type):
        decoded = compute.cast(decoded, pyarrow.string())
    return compute.utf8_trim_whitespace(decoded)


def is_missing(values: pyarrow.Array, missing: Sequence[str]) -> NDArray[numpy.bool_]:
    """Return which values are null, or a text that means a missing value."""
    import pyarrow
    from pyarrow import compute

    absent = compute.is_null(values, nan_is_null=False)
    decoded = _decoded(values)
    if pyarrow.types.is_string(decoded.type) or pyarrow.types.is_large_string(decoded.type):
        meant = pyarrow.array([text.strip() for text in missing], pyarrow.string())
        absent = compute.or_(absent, compute.is_in(texts_of(decoded), value_set=meant))
    return _bools(absent)


def numbers_of(values: pyarrow.Array, missing: Sequence[str]) -> NDArray[numpy.float64]:
    """Return values as numbers: NaN for one that is missing, and for a text that is no number."""
    import pyarrow
    from pyarrow import compute

    decoded = _decoded(values)
    if not (pyarrow.types.is_string(decoded.type) or pyarrow.types.is_large_string(decoded.type)):
        return _floats(_cast_to_numbers(decoded))
    texts = texts_of(decoded)
    meant = pyarrow.array([text.strip() for text in missing], pyarrow.string())
    known = compute.if_else(compute.is_in(texts, value_set=meant), None, texts)
    try:
        return _floats(compute.cast(known, pyarrow.float64()))
    except pyarrow.ArrowInvalid:
        import numpy

        return numpy.array([_number(text) for text in known.to_pylist()])


def _cast_to_numbers(values: pyarrow.Array) -> pyarrow.Array:
    """Return values of the file's own type as numbers; null where there is no number for them."""
    import pyarrow
    from pyarrow import compute

    try:
        return compute.cast(values, pyarrow.float64(), safe=False)
    except (pyarrow.ArrowInvalid, pyarrow.ArrowNotImplementedError):
        return pyarrow.nulls(len(values), pyarrow.float64())


def _decoded(values: pyarrow.Array) -> pyarrow.Array:
    """Return values themselves where a file stores numbers of them."""
    import pyarrow

    if pyarrow.types.is_dictionary(values.type):
        return values.dictionary_decode()
    return values


def _floats(values: pyarrow.Array) -> NDArray[numpy.float64]:
    import numpy
    from pyarrow import compute

    filled = compute.fill_null(values, math.nan)
    return numpy.asarray(filled.to_numpy(zero_copy_only=False), dtype=numpy.float64)


def _bools(values: pyarrow.Array) -> NDArray[numpy.bool_]:
    import numpy
    from pyarrow import compute

    filled = compute.fill_null(values, False)
    return numpy.asarray(filled.to_numpy(zero_copy_only=False), dtype=bool)


def _number(text: str | None) -> float:
    try:
        return math.nan if text is None else float(text)
    except ValueError:
        return math.nan
