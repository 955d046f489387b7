# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The twin of `store/queue_run.py`, for pulls: the records of a run of queue entries, checked, and copied one behind the other."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AsString, PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp, memcpy

cdef extern from "numbers.h" nogil:
    uint32_t get32(const unsigned char *at)
    uint64_t get64(const unsigned char *at)

cdef extern from "crc32.h" nogil:
    uint32_t crc32_of(const unsigned char *data, size_t size)

cdef enum:
    ENTRY_BYTES = 20
    QUEUE_ID_AT = 12
    QUEUE_OFFSET_AT = 20
    PLACE_AT = 28
    SYS_FLAG_AT = 36
    BODY_LENGTH_AT = 84  # with two IPv4 hosts
    PLACED_BYTES = 36  # of a record, up to the end of its place
    HOST_BITS = 0x30
    CHECKSUM_BYTES = 8
    CHECKSUMS_MAX = 16384
    TOPIC_BYTES_MAX = 127

cdef uint32_t MAGIC = 0xDAA320A7


cdef struct Range:
    int64_t at
    int64_t size


cdef class _Cold:
    """What is looked at of records that were not written lately."""

    cdef object checksums
    cdef str topic
    cdef bytes topic_bytes  # as they lie in a record
    cdef int32_t queue_id
    cdef int64_t start  # of the segment
    cdef int64_t known_to
    cdef bytes known  # checksums with their ends, packed
    cdef Py_ssize_t next_known  # which of them to look at first

    cdef bint is_sound(self, const unsigned char *record, int64_t size, int64_t stop, int64_t last_stop) except -1:
        """`stop` and `last_stop` are where this record and the last of the run end in the segment."""
        if stop > self.known_to:
            self.known_to = max(stop, last_stop)
            self.known = self.checksums.between(self.start, stop, self.known_to, CHECKSUMS_MAX)
        return self.is_known(stop, crc32_of(record, size)) and self.is_of(record, size)

    cdef bint is_known(self, int64_t stop, uint32_t crc) except -1:
        """Whether the record that ends there has this checksum. The next one is mostly a little behind the last one."""
        cdef const unsigned char *entries = <unsigned char *>PyBytes_AsString(self.known)
        cdef Py_ssize_t count = len(self.known) // CHECKSUM_BYTES, looked_at
        for looked_at in range(count):
            self.next_known = 0 if self.next_known >= count else self.next_known
            if <int64_t>get32(entries + self.next_known * CHECKSUM_BYTES) == stop:
                return get32(entries + self.next_known * CHECKSUM_BYTES + 4) == crc
            self.next_known += 1
        return False

    cdef bint is_of(self, const unsigned char *record, int64_t size) except -1:
        """Whether a sound record is of this queue; also no for those with a long topic or IPv6 hosts, which are few."""
        cdef int64_t topic_at
        if size < BODY_LENGTH_AT + 4 or get32(record + 4) != MAGIC or <int32_t>get32(record + QUEUE_ID_AT) != self.queue_id:
            return False
        if get32(record + SYS_FLAG_AT) & HOST_BITS:
            return False
        if self.topic_bytes is None:
            name = self.topic.encode()
            if len(name) > TOPIC_BYTES_MAX:
                return False
            self.topic_bytes = bytes((len(name),)) + name
        topic_at = BODY_LENGTH_AT + 4 + <int32_t>get32(record + BODY_LENGTH_AT)
        if topic_at < BODY_LENGTH_AT + 4 or topic_at + len(self.topic_bytes) > size:
            return False
        return memcmp(record + topic_at, PyBytes_AsString(self.topic_bytes), len(self.topic_bytes)) == 0


def pull_run(log, checksums, int64_t hot_from, bytes packed, wanted):
    cdef Py_ssize_t count = len(packed) // ENTRY_BYTES
    cdef _Cold cold = _Cold()
    cdef Py_buffer view
    cdef Range *ranges
    if not count:
        return None
    start, segment = log.segment_view(<int64_t>get64(<unsigned char *>PyBytes_AsString(packed)))
    cold.topic, cold.queue_id, first_offset, records_max, bytes_max, codes = <tuple>wanted
    cold.checksums, cold.topic_bytes, cold.start, cold.known_to, cold.next_known = checksums, None, start, 0, 0
    ranges = <Range *>malloc(count * sizeof(Range))
    if ranges == NULL:
        raise MemoryError
    try:
        PyObject_GetBuffer(segment, &view, PyBUF_SIMPLE)
        try:
            return pulled(
                <unsigned char *>view.buf, view.len, ranges, hot_from, packed, count, first_offset, records_max, bytes_max, codes, cold
            )
        finally:
            PyBuffer_Release(&view)
    finally:
        free(ranges)


cdef object pulled(
    const unsigned char *segment, int64_t end_at, Range *ranges, int64_t hot_from, bytes packed, Py_ssize_t count,
    int64_t first_offset, int64_t records_max, int64_t bytes_max, object codes, _Cold cold
):
    cdef const unsigned char *entry = <unsigned char *>PyBytes_AsString(packed)
    cdef const unsigned char *last_entry
    cdef bint takes_all = codes is None, takes_one = codes is not None and len(codes) == 1
    cdef int64_t the_one = next(iter(codes)) if takes_one else 0
    cdef int64_t offset = first_offset, place, code, at, size, stop, size_bytes = 0, last_place = 0, last_stop
    cdef Py_ssize_t number, taken = 0, last_number
    cdef bytes data
    cdef unsigned char *out
    for number in range(count):
        place, size, code = <int64_t>get64(entry), <int32_t>get32(entry + 8), <int64_t>get64(entry + 12)
        entry += ENTRY_BYTES
        if takes_all or (code == the_one if takes_one else code in codes):
            bytes_max -= size
            if taken >= records_max or (bytes_max < 0 and taken):
                break
            at = place - cold.start
            stop = at + size
            if at < 0 or size < PLACED_BYTES or stop > end_at:
                return None
            if <int32_t>get32(segment + at) != size or <int64_t>get64(segment + at + QUEUE_OFFSET_AT) != offset:
                return None
            if <int64_t>get64(segment + at + PLACE_AT) != place:
                return None
            if place < hot_from:
                last_number = min(offset - first_offset + records_max - 1, count - 1)
                last_entry = <unsigned char *>PyBytes_AsString(packed) + last_number * ENTRY_BYTES
                last_stop = <int64_t>get64(last_entry) + <int32_t>get32(last_entry + 8) - cold.start
                if not cold.is_sound(segment + at, size, stop, last_stop):
                    return None
            ranges[taken].at, ranges[taken].size = at, size
            taken += 1
            size_bytes += size
            last_place = place
        offset += 1
    data = PyBytes_FromStringAndSize(NULL, size_bytes)
    out = <unsigned char *>PyBytes_AsString(data)
    for number in range(taken):
        memcpy(out, segment + ranges[number].at, ranges[number].size)
        out += ranges[number].size
    return [data], taken, size_bytes, offset, last_place
