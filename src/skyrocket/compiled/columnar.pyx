# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Twins of the loops over records in `columnar/rows.py`, `columnar/ranges.py` and `columnar/properties.py`.

Starts and ends of ranges are arrays of int64.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AsString, PyBytes_FromStringAndSize
from libc.stdint cimport INT32_MAX, int16_t, int32_t, int64_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memchr, memcmp, memcpy, memmove

include "source_digest.pxi"
include "record_layout.pxi"

cdef extern from "numbers.h" nogil:
    unsigned int get16(const unsigned char *at)
    uint32_t get32(const unsigned char *at)
    uint64_t get64(const unsigned char *at)

cdef extern from "crc32.h" nogil:
    uint32_t crc32_of(const unsigned char *data, size_t size)

cdef enum:
    TAIL_BYTES = RECONSUME_TIMES_BYTES + TRANSACTION_OFFSET_BYTES + BODY_LENGTH_BYTES
    NAME_END = 1
    VALUE_END = 2
    NAMES_MAX = 8
    PIECES_MAX = 64  # properties of a row
    SLOTS = 64  # for recently seen ranges

cdef enum:  # ChecksumScope
    NOTHING, BODY_ALONE, RECORD

cdef enum:  # lines of the table
    START, END, MAGIC_LINE, CRC, QUEUE_ID, QUEUE_OFFSET, PHYSICAL_OFFSET, SYS_FLAG, BORN_TIMESTAMP, BORN_HOST, STORE_TIMESTAMP
    STORE_HOST, RECONSUME_TIMES, BODY, BODY_END, TOPIC, TOPIC_END, PROPERTIES, SUM, LINES


# --- records


def find_record_starts(view, int64_t at, int64_t stop, int64_t count):
    cdef Py_buffer data
    cdef int64_t size, last, room = 0, found = 0
    cdef uint32_t magic
    cdef int64_t *starts = NULL
    cdef int64_t *larger
    PyObject_GetBuffer(view, &data, PyBUF_SIMPLE)
    try:
        last = min(stop, <int64_t>data.len - FIXED_BYTES_MIN + 1)
        while 0 <= at < last and count > 0:
            size = <int32_t>get32(<const unsigned char *>data.buf + at)
            magic = get32(<const unsigned char *>data.buf + at + MAGIC_AT)
            if size < FIXED_BYTES_MIN or (magic != MAGIC and magic != MAGIC_V2):
                break
            if found == room:
                room = 4 * room if room else 256
                larger = <int64_t *>realloc(starts, room * sizeof(int64_t))
                if larger == NULL:
                    raise MemoryError
                starts = larger
            starts[found] = at
            found += 1
            at += size
            count -= 1
        if found and at > data.len:
            found -= 1
            at = starts[found]
        return PyBytes_FromStringAndSize(<char *>starts, found * sizeof(int64_t)), at
    finally:
        free(starts)
        PyBuffer_Release(&data)


def locate_fields(data, segment_start, starts, int summed):
    cdef Py_buffer bytes_, first
    cdef Py_ssize_t count, row, good, line
    cdef bint is_in_segment = segment_start is not None
    cdef int64_t base = segment_start if is_in_segment else 0
    cdef int64_t *table
    PyObject_GetBuffer(data, &bytes_, PyBUF_SIMPLE)
    try:
        PyObject_GetBuffer(starts, &first, PyBUF_SIMPLE)
        try:
            count = first.len // 8
            for row in range(count):
                if not 0 <= (<int64_t *>first.buf)[row] <= <int64_t>bytes_.len - FIXED_BYTES_MIN:
                    raise ValueError("a record lies outside the bytes")
            made = PyBytes_FromStringAndSize(NULL, 8 * LINES * count)
            table = <int64_t *>PyBytes_AsString(made)
            good = count
            for row in range(count):
                if not locate(
                    <const unsigned char *>bytes_.buf, bytes_.len, (<int64_t *>first.buf)[row], table + row, count, summed
                ) or (is_in_segment and table[PHYSICAL_OFFSET * count + row] != table[row] + base):
                    good = row
                    break
        finally:
            PyBuffer_Release(&first)
    finally:
        PyBuffer_Release(&bytes_)
    if good == count:
        return made
    for line in range(LINES):
        memmove(table + line * good, table + line * count, good * sizeof(int64_t))
    return made[: 8 * LINES * good]


cdef bint locate(const unsigned char *data, int64_t length, int64_t start, int64_t *out, Py_ssize_t count, int summed) noexcept nogil:
    """Locate the fields of one record. Return False when the record is not sound.

    At least the smallest record fits behind `start`. `out` is the record's column of the table, whose lines have `count` numbers. The
    CRC of the record is computed first: it reads the bytes in order, into the cache.
    """
    cdef const unsigned char *at = data + start
    cdef int64_t end = start + <int32_t>get32(at), place, body_bytes, topic_bytes, properties_bytes
    cdef uint32_t magic = get32(at + MAGIC_AT), sys_flag = get32(at + SYS_FLAG_AT)
    cdef bint is_v1 = magic == MAGIC
    if end < start + FIXED_BYTES_MIN or end > length:
        return False
    out[SUM * count] = crc32_of(at, end - start) if summed == RECORD else 0
    out[START * count], out[END * count], out[MAGIC_LINE * count] = start, end, <int32_t>magic
    out[CRC * count], out[QUEUE_ID * count] = <int32_t>get32(at + CRC_AT), <int32_t>get32(at + QUEUE_ID_AT)
    out[QUEUE_OFFSET * count], out[PHYSICAL_OFFSET * count] = <int64_t>get64(at + QUEUE_OFFSET_AT), <int64_t>get64(at + PHYSICAL_OFFSET_AT)
    out[SYS_FLAG * count], out[BORN_TIMESTAMP * count] = <int32_t>sys_flag, <int64_t>get64(at + BORN_TIMESTAMP_AT)
    place = start + BORN_HOST_AT
    out[BORN_HOST * count] = place
    place += V6_BYTES if sys_flag & BORN_HOST_V6 else V4_BYTES
    out[STORE_HOST * count] = place + TIMESTAMP_BYTES
    if place + TIMESTAMP_BYTES + (V6_BYTES if sys_flag & STORE_HOST_V6 else V4_BYTES) + TAIL_BYTES > end:
        return False
    out[STORE_TIMESTAMP * count] = <int64_t>get64(data + place)
    place += TIMESTAMP_BYTES + (V6_BYTES if sys_flag & STORE_HOST_V6 else V4_BYTES)
    out[RECONSUME_TIMES * count] = <int32_t>get32(data + place)
    body_bytes = <int32_t>get32(data + place + 12)
    place += TAIL_BYTES
    out[BODY * count], out[BODY_END * count] = place, place + body_bytes
    place += body_bytes
    out[TOPIC * count] = place + (1 if is_v1 else 2)
    if body_bytes < 0 or place + (1 if is_v1 else 2) > end:
        return False
    topic_bytes = data[place] if is_v1 else <int16_t>get16(data + place)
    place += (1 if is_v1 else 2) + topic_bytes
    out[TOPIC_END * count], out[PROPERTIES * count] = place, place + 2
    if topic_bytes <= 0 or topic_bytes > (TOPIC_BYTES_MAX if is_v1 else TOPIC_BYTES_MAX_V2) or place + 2 > end:
        return False
    properties_bytes = <int16_t>get16(data + place)
    if properties_bytes < 0 or place + 2 + properties_bytes != end:
        return False
    if summed == BODY_ALONE:
        out[SUM * count] = crc32_of(data + out[BODY * count], body_bytes)
    return True


# --- ranges


cdef class _Ranges:
    cdef Py_buffer data
    cdef Py_buffer starts
    cdef Py_buffer ends
    cdef int held
    cdef Py_ssize_t count
    cdef const unsigned char *base
    cdef const int64_t *first
    cdef const int64_t *last

    def __cinit__(self, data, first, last):
        PyObject_GetBuffer(data, &self.data, PyBUF_SIMPLE)
        self.held = 1
        PyObject_GetBuffer(first, &self.starts, PyBUF_SIMPLE)
        self.held = 2
        PyObject_GetBuffer(last, &self.ends, PyBUF_SIMPLE)
        self.held = 3
        self.count = min(self.starts.len, self.ends.len) // 8
        self.base = <const unsigned char *>self.data.buf
        self.first, self.last = <const int64_t *>self.starts.buf, <const int64_t *>self.ends.buf

    def __dealloc__(self):
        if self.held > 0:
            PyBuffer_Release(&self.data)
        if self.held > 1:
            PyBuffer_Release(&self.starts)
        if self.held > 2:
            PyBuffer_Release(&self.ends)

    cdef int check(self, Py_ssize_t row) except -1:
        if self.first[row] < 0 or self.last[row] < self.first[row] or self.last[row] > self.data.len:
            raise ValueError("a range lies outside the bytes")
        return 0


def compute_crcs(view, first, last):
    cdef _Ranges ranges = _Ranges(view, first, last)
    cdef Py_ssize_t row
    made = PyBytes_FromStringAndSize(NULL, 8 * ranges.count)
    cdef int64_t *out = <int64_t *>PyBytes_AsString(made)
    for row in range(ranges.count):
        ranges.check(row)
        out[row] = crc32_of(ranges.base + ranges.first[row], ranges.last[row] - ranges.first[row])
    return made


def gather(data, starts, ends):
    cdef _Ranges ranges = _Ranges(data, starts, ends)
    cdef Py_ssize_t row
    cdef int64_t total = 0, size
    cdef unsigned char *out
    offsets = PyBytes_FromStringAndSize(NULL, 4 * ranges.count + 4)
    cdef int32_t *offset = <int32_t *>PyBytes_AsString(offsets)
    for row in range(ranges.count):
        offset[row] = <int32_t>total
        if ranges.first[row] >= 0:
            ranges.check(row)
            total += ranges.last[row] - ranges.first[row]
            if total > INT32_MAX:
                raise ValueError("ranges come to more than 2 GiB")
    offset[ranges.count] = <int32_t>total
    content = PyBytes_FromStringAndSize(NULL, total)
    out = <unsigned char *>PyBytes_AsString(content)
    for row in range(ranges.count):
        size = offset[row + 1] - offset[row]
        memcpy(out + offset[row], ranges.base + (ranges.first[row] if size else 0), size)
    return offsets, content


def find_distinct(data, starts, ends):
    """Most ranges equal a recently seen one, so those are compared first."""
    cdef _Ranges ranges = _Ranges(data, starts, ends)
    cdef Py_ssize_t row, slot
    cdef int64_t size, seen_size
    cdef const unsigned char *at
    cdef Py_ssize_t seen[SLOTS]  # the last row in this slot, counted from 1; 0: none
    cdef int32_t number
    cdef dict numbers = {}
    packed = PyBytes_FromStringAndSize(NULL, 4 * ranges.count)
    cdef int32_t *out = <int32_t *>PyBytes_AsString(packed)
    for slot in range(SLOTS):
        seen[slot] = 0
    for row in range(ranges.count):
        ranges.check(row)
        at, size = ranges.base + ranges.first[row], ranges.last[row] - ranges.first[row]
        slot = (size + (31 * at[size - 1] + 7 * at[size // 2] if size else 0)) % SLOTS
        if seen[slot]:
            seen_size = ranges.last[seen[slot] - 1] - ranges.first[seen[slot] - 1]
            if seen_size == size and memcmp(ranges.base + ranges.first[seen[slot] - 1], at, size) == 0:
                out[row] = out[seen[slot] - 1]
                continue
        number = numbers.setdefault(at[:size], len(numbers))
        out[row], seen[slot] = number, row + 1
    return packed, list(numbers)


# --- properties: name 0x01 value 0x02, repeated; the last 0x02 may be missing


cdef struct Piece:
    const unsigned char *name
    const unsigned char *separator
    const unsigned char *end


cdef const unsigned char *next_piece(const unsigned char *at, const unsigned char *stop, Piece *out) noexcept nogil:
    """Find the next piece with a name and a value. Return where to continue; NULL at the end."""
    while at < stop:
        out.end = <const unsigned char *>memchr(at, VALUE_END, stop - at)
        if out.end == NULL:
            out.end = stop
        out.name, out.separator = at, <const unsigned char *>memchr(at, NAME_END, out.end - at)
        at = out.end + 1
        if out.separator != NULL and out.separator > out.name and out.separator + 1 < out.end:
            return at
    return NULL


def find_property_ranges(data, first, last, tuple names):
    cdef _Ranges ranges = _Ranges(data, first, last)
    cdef Py_ssize_t row, count = ranges.count, number = len(names), name
    cdef const unsigned char *wanted[NAMES_MAX]
    cdef Py_ssize_t sizes[NAMES_MAX]
    cdef const unsigned char *at
    cdef Piece piece
    if number > NAMES_MAX:
        raise ValueError("too many names")
    for name in range(number):
        wanted[name], sizes[name] = <const unsigned char *>PyBytes_AsString(names[name]), len(names[name])
    made = PyBytes_FromStringAndSize(NULL, 16 * count * number)
    cdef int64_t *out = <int64_t *>PyBytes_AsString(made)
    for row in range(2 * count * number):
        out[row] = -1
    for row in range(count):
        ranges.check(row)
        at = next_piece(ranges.base + ranges.first[row], ranges.base + ranges.last[row], &piece)
        while at != NULL:
            for name in range(number):
                if piece.separator - piece.name == sizes[name] and memcmp(piece.name, wanted[name], sizes[name]) == 0:
                    out[2 * count * name + row] = piece.separator + 1 - ranges.base
                    out[2 * count * name + count + row] = piece.end - ranges.base
                    break
            at = next_piece(at, ranges.base + ranges.last[row], &piece)
    return made


def find_property_pieces(data, first, last):
    cdef _Ranges ranges = _Ranges(data, first, last)
    cdef Py_ssize_t row, of_row, total = 0, room = 4 * ranges.count + PIECES_MAX
    cdef const unsigned char *at
    cdef Piece piece
    cdef Piece *larger
    cdef Piece *pieces = <Piece *>malloc(room * sizeof(Piece))
    if pieces == NULL:
        raise MemoryError
    offsets = PyBytes_FromStringAndSize(NULL, 4 * ranges.count + 4)
    cdef int32_t *offset = <int32_t *>PyBytes_AsString(offsets)
    try:
        for row in range(ranges.count):
            ranges.check(row)
            if total + PIECES_MAX > room:
                room *= 2
                larger = <Piece *>realloc(pieces, room * sizeof(Piece))
                if larger == NULL:
                    raise MemoryError
                pieces = larger
            offset[row], of_row = <int32_t>total, 0
            at = next_piece(ranges.base + ranges.first[row], ranges.base + ranges.last[row], &piece)
            while at != NULL:
                of_row = add_piece(pieces + total, of_row, &piece)
                if of_row > PIECES_MAX:
                    return None
                at = next_piece(at, ranges.base + ranges.last[row], &piece)
            total += of_row
        offset[ranges.count] = <int32_t>total
        return offsets, pack_pieces(pieces, total, ranges.base)
    finally:
        free(pieces)


cdef Py_ssize_t add_piece(Piece *pieces, Py_ssize_t count, Piece *more) noexcept nogil:
    """Add a property to a row. Return how many the row has now; more than `PIECES_MAX` when it does not fit.

    Of two equal names, the last value counts, at the position of the first.
    """
    cdef Py_ssize_t place, size = more.separator - more.name
    for place in range(count):
        if pieces[place].separator - pieces[place].name == size and memcmp(pieces[place].name, more.name, size) == 0:
            pieces[place] = more[0]
            return count
    if count < PIECES_MAX:
        pieces[count] = more[0]
    return count + 1


cdef bytes pack_pieces(const Piece *pieces, Py_ssize_t count, const unsigned char *base):
    """Pack all starts of names, all ends of names, all starts of values and all ends of values."""
    cdef bytes made = PyBytes_FromStringAndSize(NULL, 32 * count)
    cdef int64_t *out = <int64_t *>PyBytes_AsString(made)
    cdef Py_ssize_t place
    for place in range(count):
        out[place], out[count + place] = pieces[place].name - base, pieces[place].separator - base
        out[2 * count + place], out[3 * count + place] = pieces[place].separator + 1 - base, pieces[place].end - base
    return made
