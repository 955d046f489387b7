"""Ranges of bytes, some thousand at once: texts and bodies that lie apart in a segment or in pulls' answers, as Arrow arrays.

The references make one Arrow array of all ranges and of the gaps between them, without a copy, and take the ranges out of it.
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
    """Where each begins when they are put one behind the other, and the last ends, as packed int32; and them. A range that begins
    before 0 is missing, and empty."""
    taken = _take_ranges(data, starts, np.where(starts < 0, starts, ends))
    offsets, content = taken.buffers()[1:]
    return offsets[: 4 * len(starts) + 4].to_pybytes(), b"" if content is None else content.to_pybytes()


def _find_distinct(data: Bytes, starts: Ints, ends: Ints) -> tuple[bytes, list[bytes]]:
    """Which of the different ranges each is, as packed int32, and the different ones in the order in which they come."""
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
    offsets, content = gather(data, starts, ends)
    return pa.Array.from_buffers(pa.binary(), len(starts), [None, pa.py_buffer(offsets), pa.py_buffer(content)])


def text_array(data: Bytes, starts: Ints, ends: Ints) -> Array:
    """Null where one is missing. Bytes that are not UTF-8 become the replacement character, as Java reads them."""
    offsets, content = gather(data, starts, ends)
    missing = starts < 0
    nulls = int(np.count_nonzero(missing))
    present = pa.py_buffer(np.packbits(~missing, bitorder="little")) if nulls else None
    buffers = [present, pa.py_buffer(offsets), pa.py_buffer(content)]
    kind = pa.string() if content.isascii() else pa.binary()
    made = pa.Array.from_buffers(kind, len(starts), buffers, nulls)
    return made if kind == pa.string() else to_utf8(made)


def is_utf8(packed: Array) -> bool:
    """Whether bytes are text."""
    try:
        packed.view(pa.string()).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def to_utf8(packed: Array) -> Array:
    try:
        return packed.cast(pa.string())
    except pa.ArrowInvalid:
        found = [None if each is None else str(each, "utf-8", "replace") for each in packed.to_pylist()]
        return pa.array(found, pa.string())
