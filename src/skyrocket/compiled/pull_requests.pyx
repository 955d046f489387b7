# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Twin of `protocol/fast_path/pull_requests.py`: finds the shape that the headers of several pulls share, and their numbers."""

from cpython.bytes cimport PyBytes_AsString, PyBytes_FromStringAndSize
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint32_t
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

    BINARY_FIXED_BYTES = 21  # code, language, version, number, flag, remark's length, fields' length
    BINARY_NUMBER_AT = 5
    BINARY_FLAG_AT = 9
    BINARY_REMARK_AT = 13
    BINARY_FIELDS_AT = 17

cdef extern from "numbers.h" nogil:
    uint32_t get32(const unsigned char *at)

cdef const char **BINARY_NAMES = [b"", b"queueOffset", b"maxMsgNums", b"commitOffset"]
cdef int64_t *BINARY_NAME_BYTES = [-1, 11, 10, 12]
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


cdef int number_of(const unsigned char *name, int64_t size) noexcept nogil:
    """Return which of the numbers has this name in a binary header; 0 when none has."""
    cdef int which
    for which in range(1, NUMBERS):
        if BINARY_NAME_BYTES[which] == size and memcmp(name, BINARY_NAMES[which], size) == 0:
            return which
    return 0


cdef int64_t read_digits(const unsigned char *at, int64_t size) noexcept nogil:
    """Return the number that these digits are; -1 when they are something else."""
    cdef int64_t value = 0, digit
    if not 1 <= size <= DIGITS_MAX or (at[0] == ZERO and size > 1):
        return -1
    for digit in range(size):
        if not ZERO <= at[digit] <= NINE:
            return -1
        value = 10 * value + (at[digit] - ZERO)
    return value


cdef size_t split_binary_shape(const unsigned char *header, int64_t size, unsigned char *shape, int64_t *values) noexcept nogil:
    """`split_shape` for a binary header."""
    cdef int64_t at = BINARY_FIXED_BYTES, name_at, name_bytes, name_end, value_at, value_bytes
    cdef unsigned char *out = shape
    cdef int which
    if not BINARY_FIXED_BYTES <= size <= HEADER_BYTES_MAX or get32(header + BINARY_REMARK_AT):
        return 0
    if BINARY_FIXED_BYTES + <int64_t><int32_t>get32(header + BINARY_FIELDS_AT) != size:
        return 0
    values[OPAQUE] = <int32_t>get32(header + BINARY_NUMBER_AT)
    for which in range(1, NUMBERS):
        values[which] = -1
    out[0] = 1
    memcpy(out + 1, header, BINARY_NUMBER_AT)
    memcpy(out + 1 + BINARY_NUMBER_AT, header + BINARY_FLAG_AT, BINARY_FIELDS_AT - BINARY_FLAG_AT)
    out += 1 + BINARY_NUMBER_AT + BINARY_FIELDS_AT - BINARY_FLAG_AT
    while at < size:
        name_at = at + 2
        if name_at > size:
            return 0
        name_bytes = (header[at] << 8) | header[at + 1]
        name_end, value_at = name_at + name_bytes, name_at + name_bytes + 4
        if name_bytes > 32767 or value_at > size:
            return 0
        value_bytes = <int32_t>get32(header + name_end)
        if value_bytes < 0 or value_bytes > size - value_at:
            return 0
        which = number_of(header + name_at, name_bytes)
        if which:
            if values[which] >= 0:
                return 0
            values[which] = read_digits(header + value_at, value_bytes)
            if values[which] < 0:
                return 0
            memcpy(out, header + at, name_end - at)
            out += name_end - at
        else:
            memcpy(out, header + at, value_at + value_bytes - at)
            out += value_at + value_bytes - at
        at = value_at + value_bytes
    for which in range(NUMBERS):
        if values[which] < 0:
            return 0
    return 0 if values[COUNT] > INT32_MAX else out - shape


def find_similar_pulls(frames, Py_ssize_t at, Py_ssize_t most):
    cdef unsigned char[HEADER_BYTES_MAX + NUMBERS] shape
    cdef int64_t[NUMBERS] values
    cdef size_t size
    cdef bytes first = b"", header
    cdef list similar = []
    for serialization, header, _ in frames[at : at + most]:
        if serialization == 0:
            size = split_shape(<const unsigned char *>PyBytes_AsString(header), len(header), shape, values)
        else:
            size = split_binary_shape(<const unsigned char *>PyBytes_AsString(header), len(header), shape, values)
        if not size:
            break
        if not similar:
            first = PyBytes_FromStringAndSize(<char *>shape, size)
        elif size != <size_t>len(first) or memcmp(shape, PyBytes_AsString(first), size) != 0:
            break
        similar.append((values[0], values[1], values[2], values[3]))
    return first, similar
