# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The twins of what takes a step for each record in `store/arrow_rows.py`, `store/arrow_checks.py` and `store/arrow_columns.py`."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AsString, PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.string cimport memchr, memcmp

cdef extern from "numbers.h" nogil:
    uint32_t get32(const unsigned char *at)

cdef extern from "crc32.h" nogil:
    uint32_t crc32_of(const unsigned char *data, size_t size)

cdef enum:
    FIXED_BYTES_MIN = 91
    NAME_END = 1
    VALUE_END = 2
    NAMES_MAX = 8

cdef uint32_t MAGIC = 0xDAA320A7
cdef uint32_t MAGIC_V2 = 0xDAA320AB


def chain(view, int64_t at, int64_t stop, int64_t count):
    cdef Py_buffer data
    cdef int64_t size, last
    cdef uint32_t magic
    cdef list starts = []
    PyObject_GetBuffer(view, &data, PyBUF_SIMPLE)
    try:
        last = min(stop, <int64_t>data.len - FIXED_BYTES_MIN + 1)
        while 0 <= at < last and count > 0:
            size = <int32_t>get32(<const unsigned char *>data.buf + at)
            magic = get32(<const unsigned char *>data.buf + at + 4)
            if size < FIXED_BYTES_MIN or (magic != MAGIC and magic != MAGIC_V2):
                break
            starts.append(at)
            at += size
            count -= 1
        if starts and at > data.len:
            starts.pop()
    finally:
        PyBuffer_Release(&data)
    return starts


def sums(view, first, last):
    """Of ranges that `first` and `last` have as arrays of int64; the sums likewise."""
    cdef Py_buffer data, starts, ends
    cdef Py_ssize_t row, count
    cdef int64_t *out
    cdef int64_t start, end
    PyObject_GetBuffer(view, &data, PyBUF_SIMPLE)
    PyObject_GetBuffer(first, &starts, PyBUF_SIMPLE)
    PyObject_GetBuffer(last, &ends, PyBUF_SIMPLE)
    try:
        count = min(starts.len, ends.len) // 8
        made = PyBytes_FromStringAndSize(NULL, 8 * count)
        out = <int64_t *>PyBytes_AsString(made)
        for row in range(count):
            start, end = (<int64_t *>starts.buf)[row], (<int64_t *>ends.buf)[row]
            if start < 0 or end < start or end > data.len:
                raise ValueError("a range lies outside the bytes")
            out[row] = crc32_of(<const unsigned char *>data.buf + start, end - start)
    finally:
        PyBuffer_Release(&data)
        PyBuffer_Release(&starts)
        PyBuffer_Release(&ends)
    return made


def property_ranges(view, first, last, tuple names):
    cdef Py_buffer data, starts, ends
    cdef Py_ssize_t row, count, number = len(names), name
    cdef int64_t *out
    cdef int64_t start, end
    cdef const unsigned char *wanted[NAMES_MAX]
    cdef Py_ssize_t sizes[NAMES_MAX]
    cdef const unsigned char *at
    cdef const unsigned char *stop
    cdef const unsigned char *piece_end
    cdef const unsigned char *separator
    if number > NAMES_MAX:
        raise ValueError("too many names")
    for name in range(number):
        wanted[name], sizes[name] = <const unsigned char *>PyBytes_AsString(names[name]), len(names[name])
    PyObject_GetBuffer(view, &data, PyBUF_SIMPLE)
    PyObject_GetBuffer(first, &starts, PyBUF_SIMPLE)
    PyObject_GetBuffer(last, &ends, PyBUF_SIMPLE)
    try:
        count = min(starts.len, ends.len) // 8
        made = PyBytes_FromStringAndSize(NULL, 16 * count * number)
        out = <int64_t *>PyBytes_AsString(made)
        for row in range(2 * count * number):
            out[row] = -1
        for row in range(count):
            start, end = (<int64_t *>starts.buf)[row], (<int64_t *>ends.buf)[row]
            if start < 0 or end < start or end > data.len:
                raise ValueError("a range lies outside the bytes")
            at, stop = <const unsigned char *>data.buf + start, <const unsigned char *>data.buf + end
            while at < stop:
                piece_end = <const unsigned char *>memchr(at, VALUE_END, stop - at)
                if piece_end == NULL:
                    piece_end = stop
                separator = <const unsigned char *>memchr(at, NAME_END, piece_end - at)
                if separator != NULL and separator > at and separator + 1 < piece_end:
                    for name in range(number):
                        if separator - at == sizes[name] and memcmp(at, wanted[name], sizes[name]) == 0:
                            out[2 * count * name + row] = separator + 1 - <const unsigned char *>data.buf
                            out[2 * count * name + count + row] = piece_end - <const unsigned char *>data.buf
                            break
                at = piece_end + 1
    finally:
        PyBuffer_Release(&data)
        PyBuffer_Release(&starts)
        PyBuffer_Release(&ends)
    return made
