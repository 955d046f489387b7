# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Twin of `protocol/fast_path/pull_requests.py`: finds the shape that the headers of several pulls share, and their numbers."""

from cpython.bytes cimport PyBytes_AsString, PyBytes_FromStringAndSize
from libc.stdint cimport INT32_MAX, int64_t
from libc.string cimport memchr, memcmp, memcpy

include "source_digest.pxi"

cdef extern from "string.h" nogil:
    void *memmem(const void *where, size_t where_size, const void *what, size_t size)

cdef enum:
    NUMBERS = 4
    OPAQUE = 0  # index into NAMES
    COUNT = 2  # index into NAMES
    DIGITS_MAX = 18
    HEADER_BYTES_MAX = 2048
    ZERO = 48  # characters
    NINE = 57
    QUOTE = 34
    COMMA = 44
    BACKSLASH = 92
    CLOSING = 125

cdef const char **NAMES = [b'"opaque":', b'"queueOffset":', b'"maxMsgNums":', b'"commitOffset":']
cdef size_t *NAME_BYTES = [9, 14, 13, 15]


cdef struct Number:
    size_t at  # in the header
    size_t digits
    int64_t value


cdef bint read_number(const unsigned char *header, size_t size, int which, Number *number) noexcept nogil:
    """Read the number behind a name. Return False unless the header has the name once, with a number behind it."""
    cdef const unsigned char *end = header + size
    cdef const unsigned char *at = <const unsigned char *>memmem(header, size, NAMES[which], NAME_BYTES[which])
    cdef const unsigned char *first
    if at == NULL:
        return False
    at += NAME_BYTES[which]
    if memmem(at, end - at, NAMES[which], NAME_BYTES[which]) != NULL:
        return False
    if which != OPAQUE:  # all but opaque are in quotes
        if at == end or at[0] != QUOTE:
            return False
        at += 1
    first, number.value = at, 0
    while at < end and ZERO <= at[0] <= NINE and at - first < DIGITS_MAX:
        number.value = 10 * number.value + (at[0] - ZERO)
        at += 1
    number.at, number.digits = first - header, at - first
    if not number.digits or at == end or (first[0] == ZERO and number.digits > 1):
        return False
    return at[0] == QUOTE if which != OPAQUE else at[0] == COMMA or at[0] == CLOSING


cdef size_t split_shape(const unsigned char *header, size_t size, unsigned char *shape, int64_t *values) noexcept nogil:
    """Write the shape and the numbers of a header, and return the size of the shape; 0 if there is none."""
    cdef Number[NUMBERS] numbers
    cdef Number other
    cdef int which, before
    cdef size_t at = 0
    cdef unsigned char *out = shape
    if size > HEADER_BYTES_MAX or memchr(header, 0, size) != NULL or memchr(header, BACKSLASH, size) != NULL:
        return 0
    for which in range(NUMBERS):
        if not read_number(header, size, which, &numbers[which]):
            return 0
        values[which] = numbers[which].value
    if values[OPAQUE] > INT32_MAX or values[COUNT] > INT32_MAX:
        return 0
    for which in range(1, NUMBERS):  # sort by position
        before = which
        while before and numbers[before].at < numbers[before - 1].at:
            other = numbers[before]
            numbers[before] = numbers[before - 1]
            numbers[before - 1] = other
            before -= 1
    for which in range(NUMBERS):
        memcpy(out, header + at, numbers[which].at - at)
        out += numbers[which].at - at
        out[0] = 0
        out += 1
        at = numbers[which].at + numbers[which].digits
    memcpy(out, header + at, size - at)
    return out + (size - at) - shape


def find_similar_pulls(frames, Py_ssize_t at, Py_ssize_t most):
    cdef unsigned char[HEADER_BYTES_MAX + NUMBERS] shape
    cdef int64_t[NUMBERS] values
    cdef size_t size
    cdef bytes first = b"", header
    cdef list similar = []
    for serialization, header, _ in frames[at : at + most]:
        if serialization != 0:
            break
        size = split_shape(<const unsigned char *>PyBytes_AsString(header), len(header), shape, values)
        if not size:
            break
        if not similar:
            first = PyBytes_FromStringAndSize(<char *>shape, size)
        elif size != <size_t>len(first) or memcmp(shape, PyBytes_AsString(first), size) != 0:
            break
        similar.append((values[0], values[1], values[2], values[3]))
    return first, similar
