# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Twins of `store/ledger/entry_run.py` and `store/ledger/entry_dispatch.py`: entries of a DLedger log, at its leader and at a follower."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.string cimport memset

include "source_digest.pxi"
include "pieces.pxi"
include "readdress.pxi"
include "record_reader.pxi"

cdef enum:  # `protocol/ledger_entry.py` and `store/ledger/entry_index.py` draw the layouts
    ENTRY_HEADER_BYTES = 48
    ENTRY_MAGIC = 1
    ENTRY_BYTES_MAX = 4194304
    ENTRY_SIZE_AT = 4
    ENTRY_INDEX_AT = 8
    ENTRY_TERM_AT = 16
    ENTRY_POS_AT = 24
    ENTRY_CHANNEL_AT = 32
    CHANNEL_AND_CRCS_BYTES = 12
    ENTRY_BODY_BYTES_AT = 44
    INDEX_ENTRY_BYTES = 32
    INDEX_POS_AT = 4
    INDEX_SIZE_AT = 12
    INDEX_INDEX_AT = 16
    INDEX_TERM_AT = 24

def frame_records(bytes records, list offsets, int64_t index, int64_t term):
    cdef Py_ssize_t count = len(offsets), number
    cdef int64_t left = PyBytes_Size(records), at = 0, size, offset
    cdef const unsigned char *source = bytes_of(records)
    cdef bytes framed = PyBytes_FromStringAndSize(NULL, left + count * ENTRY_HEADER_BYTES if count else 0)
    cdef unsigned char *out = bytes_of(framed)
    for number in range(count):
        offset = offsets[number]
        size = <int64_t>offsets[number + 1] - ENTRY_HEADER_BYTES - offset if number + 1 < count else left
        if size < 0 or size > left:
            raise ValueError(f"a record from {at} to {at + size} is not in {PyBytes_Size(records)} bytes")
        put32(out, ENTRY_MAGIC)
        put32(out + ENTRY_SIZE_AT, <uint32_t>(size + ENTRY_HEADER_BYTES))
        put64(out + ENTRY_INDEX_AT, <uint64_t>(index + number))
        put64(out + ENTRY_TERM_AT, <uint64_t>term)
        put64(out + ENTRY_POS_AT, <uint64_t>(offset - ENTRY_HEADER_BYTES))
        memset(out + ENTRY_CHANNEL_AT, 0, CHANNEL_AND_CRCS_BYTES)
        put32(out + ENTRY_BODY_BYTES_AT, <uint32_t>size)
        memcpy(out + ENTRY_HEADER_BYTES, source + at, size)
        out, at, left = out + ENTRY_HEADER_BYTES + size, at + size, left - size
    return framed


def pack_index_entries(data, int64_t start, list offsets):
    cdef Py_ssize_t count = len(offsets), number
    cdef int64_t at
    cdef const unsigned char *header
    cdef bytes packed = PyBytes_FromStringAndSize(NULL, count * INDEX_ENTRY_BYTES)
    cdef unsigned char *out = bytes_of(packed)
    cdef Py_buffer view
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        for number in range(count):
            at = <int64_t>offsets[number] - ENTRY_HEADER_BYTES - start
            if at < 0 or at > view.len - ENTRY_HEADER_BYTES:
                raise ValueError(f"an entry at {at} is not in {view.len} bytes")
            header = <const unsigned char *>view.buf + at
            memcpy(out, header, 4)
            memcpy(out + INDEX_POS_AT, header + ENTRY_POS_AT, 8)
            memcpy(out + INDEX_SIZE_AT, header + ENTRY_SIZE_AT, 4)
            memcpy(out + INDEX_INDEX_AT, header + ENTRY_INDEX_AT, 8)
            memcpy(out + INDEX_TERM_AT, header + ENTRY_TERM_AT, 8)
            out += INDEX_ENTRY_BYTES
    finally:
        PyBuffer_Release(&view)
    return packed


# --- entries at a follower


def dispatches_of(entries, delays_ms, shapes):
    from skyrocket.store.ledger.entry_dispatch import dispatch_of
    cdef _RecordReader reader = _RecordReader(shapes)
    cdef list found = []
    cdef object one
    for entry in entries:
        one = read_entry(reader, <bytes>entry) if type(entry) is bytes else None
        found.append(dispatch_of(entry, delays_ms) if one is None else one)
    return found


cdef object read_entry(_RecordReader reader, bytes entry):
    """Return what queues and index need of an entry; None for the reference, which also says what is wrong with it."""
    cdef const unsigned char *header = bytes_of(entry)
    cdef Py_ssize_t size = PyBytes_Size(entry)
    if not ENTRY_HEADER_BYTES + FIXED_BYTES_MIN <= size <= ENTRY_BYTES_MAX or not is_entry(header, size):
        return None
    if get32(header + ENTRY_HEADER_BYTES) != size - ENTRY_HEADER_BYTES:
        return None
    return reader.read(header + ENTRY_HEADER_BYTES, size - ENTRY_HEADER_BYTES, <int64_t>get64(header + ENTRY_POS_AT) + ENTRY_HEADER_BYTES)


cdef bint is_entry(const unsigned char *header, int64_t size) noexcept:
    """Whether a header says what a header of an entry of this size must say."""
    return (
        get32(header) == ENTRY_MAGIC
        and get32(header + ENTRY_SIZE_AT) == size
        and get32(header + ENTRY_BODY_BYTES_AT) == size - ENTRY_HEADER_BYTES
        and get32(header + ENTRY_CHANNEL_AT) == 0
        and <int64_t>get64(header + ENTRY_INDEX_AT) >= 0
        and <int64_t>get64(header + ENTRY_TERM_AT) >= 0
        and 0 <= <int64_t>get64(header + ENTRY_POS_AT) <= 0x7FFFFFFFFFFFFF00
    )
