# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Twin of `spark/fetch/fast_path.py`: takes pull responses that hold exactly what their pulls asked for."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy

include "source_digest.pxi"
include "record_layout.pxi"

cdef extern from "numbers.h" nogil:
    int DECIMAL_BYTES_MAX
    uint32_t get32(const unsigned char *at)
    unsigned char *put_decimal(unsigned char *at, int64_t value)

cdef extern from "string.h" nogil:
    void *memmem(const void *where, size_t where_size, const void *what, size_t size)

cdef enum:
    LENGTH_BYTES = 4
    PREFIX_BYTES = 8
    HEADER_BYTES_MAX = 1024 * 1024
    TEXT_BYTES_MAX = 64


cdef struct Header:
    const unsigned char *at
    size_t size


cdef bint has(Header header, const char *name, size_t name_bytes, int64_t value, char behind) noexcept nogil:
    """Return whether the header contains `name`, followed by this number and this character."""
    cdef unsigned char text[TEXT_BYTES_MAX]
    cdef unsigned char *end
    memcpy(text, name, name_bytes)
    end = put_decimal(text + name_bytes, value)
    end[0] = behind
    return memmem(header.at, header.size, text, end + 1 - text) != NULL


cdef bint is_expected(Header header, int64_t number, int64_t upto, int64_t broker_id) noexcept nogil:
    return (
        has(header, b'"code":', 7, 0, b",")
        and has(header, b'"opaque":', 9, number, b",")
        and has(header, b'"nextBeginOffset":"', 19, upto, b'"')
        and has(header, b'"suggestWhichBrokerId":"', 24, broker_id, b'"')
    )


cdef int64_t chained(const unsigned char *data, int64_t at, int64_t end, int64_t *starts, int64_t count) noexcept nogil:
    """Store the starts of up to `count` records. Return their number if they fill the range exactly, otherwise -1."""
    cdef int64_t found = 0, size
    cdef uint32_t magic
    while at <= end - FIXED_BYTES_MIN and found < count:
        size, magic = <int32_t>get32(data + at + SIZE_AT), get32(data + at + MAGIC_AT)
        if size < FIXED_BYTES_MIN or (magic != MAGIC and magic != MAGIC_V2):
            return -1
        starts[found] = at
        found += 1
        at += size
    return found if at == end else -1


def take_expected(view, int64_t at, int64_t filled, int64_t broker_id, pulls):
    cdef Py_buffer held
    cdef const unsigned char *data
    cdef Header header
    cdef int64_t number, offset, upto, header_bytes, body, end, taken = 0, found = 0
    cdef int64_t *starts = NULL
    cdef int64_t *larger
    PyObject_GetBuffer(view, &held, PyBUF_SIMPLE)
    try:
        data, filled = <const unsigned char *>held.buf, min(filled, <int64_t>held.len)
        for number, offset, upto, _ in pulls:
            if at < 0 or filled - at < PREFIX_BYTES:
                break
            header_bytes = get32(data + at + 4)
            body, end = at + PREFIX_BYTES + header_bytes, at + LENGTH_BYTES + <int32_t>get32(data + at)
            if header_bytes > HEADER_BYTES_MAX or not body <= end <= filled:
                break
            if not 0 < upto - offset <= (end - body) // FIXED_BYTES_MIN:
                break
            header.at, header.size = data + at + PREFIX_BYTES, header_bytes
            if not is_expected(header, number, upto, broker_id):
                break
            larger = <int64_t *>realloc(starts, (found + upto - offset) * sizeof(int64_t))
            if larger == NULL:
                raise MemoryError
            starts = larger
            if chained(data, body, end, starts + found, upto - offset) != upto - offset:
                break
            found += upto - offset
            taken, at = taken + 1, end
        return taken, at, PyBytes_FromStringAndSize(<char *>starts, found * sizeof(int64_t))
    finally:
        free(starts)
        PyBuffer_Release(&held)
