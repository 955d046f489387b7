"""Many byte ranges as one Arrow array: strings and bodies that lie scattered in a log segment or in pull responses.

The Python references build one Arrow array of all ranges and the gaps between them, without a copy, and take the ranges from it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa  # type: ignore[import-untyped]

from skyrocket.compiled import twin

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]
Array = Any  # pyarrow has no types


def _gather(data: Bytes, starts: Ints, ends: Ints) -> tuple[bytes, bytes]:
    """Concatenate ranges. Return their offsets, as packed int32 with the total at the end, and the bytes.

    A range that starts before 0 is missing, and counts as empty.
    """
    taken = _take_ranges(data, starts, np.where(starts < 0, starts, ends))
    offsets, content = taken.buffers()[1:]
    return offsets[: 4 * len(starts) + 4].to_pybytes(), b"" if content is None else content.to_pybytes()


def _find_distinct(data: Bytes, starts: Ints, ends: Ints) -> tuple[bytes, list[bytes]]:
    """Return for each range the index of its distinct value, as packed int32, and the distinct values in order of appearance."""
    if len(starts) and starts.min() < 0:
        raise ValueError("a range lies outside the bytes")
    found = _take_ranges(data, starts, ends).dictionary_encode()
    return found.indices.to_numpy().tobytes(), found.dictionary.to_pylist()


def _take_ranges(data: Bytes, starts: Ints, ends: Ints) -> Array:
    count = len(starts)
    if (ends < starts).any() or (count and ends.max() > len(data)):
        raise ValueError("a range lies outside the bytes")
    base = max(0, int(starts.min(initial=0) if (starts < 0).any() else starts.min(initial=len(data))))
    offsets = np.zeros(2 * count + 1, np.int32)
    offsets[0:-1:2] = np.maximum(starts - base, 0)
    offsets[1::2] = np.maximum(ends - base, 0)
    offsets[-1] = offsets[1::2].max(initial=0)
    every = pa.Array.from_buffers(pa.binary(), 2 * count, [None, pa.py_buffer(offsets), pa.py_buffer(data[base:])])
    return every.take(pa.array(np.arange(0, 2 * count, 2)))


gather = twin("columnar", _gather)
find_distinct = twin("columnar", _find_distinct)


def binary_array(data: Bytes, starts: Ints, ends: Ints) -> Array:
    """Return ranges as a binary array."""
    offsets, content = gather(data, starts, ends)
    return pa.Array.from_buffers(pa.binary(), len(starts), [None, pa.py_buffer(offsets), pa.py_buffer(content)])


def text_array(data: Bytes, starts: Ints, ends: Ints) -> Array:
    """Return ranges as strings, null where missing. Bytes that are not UTF-8 become the replacement character, as in Java."""
    offsets, content = gather(data, starts, ends)
    missing = starts < 0
    nulls = int(np.count_nonzero(missing))
    present = pa.py_buffer(np.packbits(~missing, bitorder="little")) if nulls else None
    buffers = [present, pa.py_buffer(offsets), pa.py_buffer(content)]
    kind = pa.string() if content.isascii() else pa.binary()
    made = pa.Array.from_buffers(kind, len(starts), buffers, nulls)
    return made if kind == pa.string() else to_utf8(made)


def is_utf8(packed: Array) -> bool:
    """Whether every value of a binary array is UTF-8."""
    try:
        packed.view(pa.string()).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def to_utf8(packed: Array) -> Array:
    """Convert a binary array to strings. Bytes that are not UTF-8 become the replacement character."""
    try:
        return packed.cast(pa.string())
    except pa.ArrowInvalid:
        found = [None if each is None else str(each, "utf-8", "replace") for each in packed.to_pylist()]
        return pa.array(found, pa.string())
