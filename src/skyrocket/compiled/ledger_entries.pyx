# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Twins of `store/ledger/entry_run.py`: headers and index entries of a DLedger log."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AsString, PyBytes_FromStringAndSize, PyBytes_Size
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

include "source_digest.pxi"

cdef extern from "numbers.h" nogil:
    void put32(unsigned char *at, uint32_t value)
    void put64(unsigned char *at, uint64_t value)

cdef enum:  # `protocol/ledger_entry.py` and `store/ledger/entry_index.py` draw the layouts
    HEADER_BYTES = 48
    ENTRY_MAGIC = 1
    SIZE_AT = 4
    INDEX_AT = 8
    TERM_AT = 16
    POS_AT = 24
    CHANNEL_AT = 32
    CHANNEL_AND_CRCS_BYTES = 12
    BODY_BYTES_AT = 44
    INDEX_ENTRY_BYTES = 32
    INDEX_POS_AT = 4
    INDEX_SIZE_AT = 12
    INDEX_INDEX_AT = 16
    INDEX_TERM_AT = 24


def frame_records(bytes records, list offsets, int64_t index, int64_t term):
    cdef Py_ssize_t count = len(offsets), number
    cdef int64_t left = PyBytes_Size(records), at = 0, size, offset
    cdef const unsigned char *source = <unsigned char *>PyBytes_AsString(records)
    cdef bytes framed = PyBytes_FromStringAndSize(NULL, left + count * HEADER_BYTES if count else 0)
    cdef unsigned char *out = <unsigned char *>PyBytes_AsString(framed)
    for number in range(count):
        offset = offsets[number]
        size = <int64_t>offsets[number + 1] - HEADER_BYTES - offset if number + 1 < count else left
        if size < 0 or size > left:
            raise ValueError(f"a record from {at} to {at + size} is not in {PyBytes_Size(records)} bytes")
        put32(out, ENTRY_MAGIC)
        put32(out + SIZE_AT, <uint32_t>(size + HEADER_BYTES))
        put64(out + INDEX_AT, <uint64_t>(index + number))
        put64(out + TERM_AT, <uint64_t>term)
        put64(out + POS_AT, <uint64_t>(offset - HEADER_BYTES))
        memset(out + CHANNEL_AT, 0, CHANNEL_AND_CRCS_BYTES)
        put32(out + BODY_BYTES_AT, <uint32_t>size)
        memcpy(out + HEADER_BYTES, source + at, size)
        out, at, left = out + HEADER_BYTES + size, at + size, left - size
    return framed


def pack_index_entries(data, int64_t start, list offsets):
    cdef Py_ssize_t count = len(offsets), number
    cdef int64_t at
    cdef const unsigned char *header
    cdef bytes packed = PyBytes_FromStringAndSize(NULL, count * INDEX_ENTRY_BYTES)
    cdef unsigned char *out = <unsigned char *>PyBytes_AsString(packed)
    cdef Py_buffer view
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        for number in range(count):
            at = <int64_t>offsets[number] - HEADER_BYTES - start
            if at < 0 or at > view.len - HEADER_BYTES:
                raise ValueError(f"an entry at {at} is not in {view.len} bytes")
            header = <const unsigned char *>view.buf + at
            memcpy(out, header, 4)
            memcpy(out + INDEX_POS_AT, header + POS_AT, 8)
            memcpy(out + INDEX_SIZE_AT, header + SIZE_AT, 4)
            memcpy(out + INDEX_INDEX_AT, header + INDEX_AT, 8)
            memcpy(out + INDEX_TERM_AT, header + TERM_AT, 8)
            out += INDEX_ENTRY_BYTES
    finally:
        PyBuffer_Release(&view)
    return packed
