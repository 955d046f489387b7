# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Twins of `store/ledger/entry_run.py` and `store/ledger/entry_dispatch.py`: entries of a DLedger log, at its leader and at a follower."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.string cimport memset

include "source_digest.pxi"
include "pieces.pxi"
include "readdress.pxi"

cdef extern from "crc32.h" nogil:
    uint32_t crc32_of(const unsigned char *data, size_t size)

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

cdef bytes SCHEDULE_TOPIC = b"SCHEDULE_TOPIC_XXXX"  # its queue entries have the time of delivery


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
    cdef _Dispatches reader = _Dispatches(shapes)
    cdef list found = []
    cdef object one
    for entry in entries:
        one = reader.read(<bytes>entry) if type(entry) is bytes else None
        found.append(dispatch_of(entry, delays_ms) if one is None else one)
    return found


cdef class _Dispatches:
    """One pass over entries. It remembers the topic and the properties of the last one, which mostly recur."""

    cdef dict known
    cdef object look_up
    cdef bytes topic_known
    cdef object topic
    cdef bytes shape
    cdef object code
    cdef tuple keys
    cdef bint marks_key

    def __init__(self, shapes):
        self.known, self.look_up = shapes.known, shapes.look_up

    cdef object read(self, bytes entry):
        """Return what queues and index need of an entry; None for the reference, which also says what is wrong with it."""
        cdef const unsigned char *header = bytes_of(entry)
        cdef Py_ssize_t size = PyBytes_Size(entry)
        cdef int64_t pos, properties_bytes, topic_bytes, topic_at
        cdef const unsigned char *record
        cdef ReaddressedRecord parts
        cdef tuple keys
        if not ENTRY_HEADER_BYTES + FIXED_BYTES_MIN <= size <= ENTRY_BYTES_MAX or not is_entry(header, size):
            return None
        record, pos = header + ENTRY_HEADER_BYTES, <int64_t>get64(header + ENTRY_POS_AT)
        parts.record, parts.record_bytes = record, size - ENTRY_HEADER_BYTES
        if get32(record) != parts.record_bytes or <int64_t>get64(record + PHYSICAL_OFFSET_AT) != pos + ENTRY_HEADER_BYTES:
            return None
        if get32(record + MAGIC_AT) != MAGIC and get32(record + MAGIC_AT) != MAGIC_V2 or not measure(&parts):
            return None
        properties_bytes = parts.record_bytes - parts.properties_at
        topic_at = parts.body_end + (1 if get32(record + MAGIC_AT) == MAGIC else 2)
        topic_bytes = <int64_t>parts.properties_at - PROPERTIES_LENGTH_BYTES - topic_at
        if not 0 < topic_bytes <= TOPIC_BYTES_MAX or get16(record + parts.properties_at - PROPERTIES_LENGTH_BYTES) != properties_bytes:
            return None
        if properties_bytes > PROPERTIES_BYTES_MAX:
            return None
        if crc32_of(record + parts.fixed, parts.body_end - parts.fixed) & 0x7FFFFFFF != get32(record + CRC_AT):
            return None
        if not self.find_topic(record + topic_at, topic_bytes) or not self.find_shape(&parts, properties_bytes):
            return None
        if self.marks_key:
            keys = prepend(PyUnicode_DecodeUTF8(<char *>parts.key, parts.key_bytes, NULL), self.keys)
        else:
            keys = self.keys
        return (
            self.topic,
            <int32_t>get32(record + QUEUE_ID_AT),
            <int64_t>get64(record + QUEUE_OFFSET_AT),
            pos + ENTRY_HEADER_BYTES,
            parts.record_bytes,
            self.code,
            <int64_t>get64(record + BORN_HOST_AT + parts.born_host_bytes),
            keys,
            <int32_t>get32(record + SYS_FLAG_AT),
        )

    cdef bint find_topic(self, const unsigned char *at, size_t size) except -1:
        """Decode the topic, unless it is that of the last entry. Return False if it is for the reference."""
        if self.topic_known is not None and <size_t>PyBytes_Size(self.topic_known) == size and memcmp(at, bytes_of(self.topic_known), size) == 0:
            return True
        name = PyBytes_FromStringAndSize(<char *>at, size)
        if name == SCHEDULE_TOPIC:
            return False
        try:
            self.topic = name.decode()
        except UnicodeDecodeError:
            return False
        self.topic_known = name
        return True

    cdef bint find_shape(self, ReaddressedRecord *parts, size_t size) except -1:
        """Find what the properties mean, and the unique key. Return False if they are for the reference."""
        cdef bytes shape = shape_of(parts.record + parts.properties_at, size, parts)
        if shape != self.shape:
            facts = self.known.get(shape)
            if facts is None:
                facts = self.look_up(shape)
            if facts is None:
                return False
            self.code, self.keys, self.marks_key = facts
            self.shape = shape
        return not self.marks_key or parts.key != NULL


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
