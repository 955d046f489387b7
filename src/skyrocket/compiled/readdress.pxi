# Records on their way to another queue of the log; part of the modules that include it, behind `pieces.pxi`.

from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.string cimport memchr, memcmp

include "record_layout.pxi"

cdef extern from "send_header.h" nogil:
    bint is_alphanumeric(const unsigned char *text, size_t size)
    const unsigned char *find(const unsigned char *text, size_t size, const char *word, size_t word_size)

cdef enum:
    HEAD_BYTES = BORN_TIMESTAMP_AT  # as far as the sys flag
    FIXED_BYTES = BODY_AT - 2 * V4_BYTES  # of a record before its body, beside the two hosts
    KEY_BYTES_MIN = 16  # of a unique key; a shorter one may be part of other words
    UNIQUE_BYTES = 9  # of the name of the unique key, with the byte that ends it
    VALUE_END = 2

cdef const char *UNIQUE = b"UNIQ_KEY\x01"


cdef struct ReaddressedRecord:
    const unsigned char *record
    size_t record_bytes
    # Where the record has its parts.
    size_t born_host_bytes
    size_t store_host_bytes
    size_t fixed
    size_t body_end
    size_t properties_at
    # The unique key that is marked in what is kept of its properties; NULL where none is.
    const unsigned char *key
    size_t key_bytes
    # What it will be.
    int32_t sys_flag
    size_t properties_bytes
    size_t size


cdef bint measure(ReaddressedRecord *moved) noexcept nogil:
    """Where a record has its parts; False when they do not fit in it."""
    cdef const unsigned char *record = moved.record
    cdef int64_t body_bytes
    cdef size_t topic_end
    if moved.record_bytes < FIXED_BYTES + 2 * V4_BYTES:
        return False
    moved.born_host_bytes = V6_BYTES if record[SYS_FLAG_LAST_AT] & BORN_HOST_V6 else V4_BYTES
    moved.store_host_bytes = V6_BYTES if record[SYS_FLAG_LAST_AT] & STORE_HOST_V6 else V4_BYTES
    moved.fixed = FIXED_BYTES + moved.born_host_bytes + moved.store_host_bytes
    if moved.record_bytes < moved.fixed + 1:
        return False
    body_bytes = <int32_t>get32(record + moved.fixed - 4)
    if body_bytes < 0 or moved.fixed + body_bytes + 2 > moved.record_bytes:
        return False
    moved.body_end = moved.fixed + body_bytes
    if record[MAGIC_LAST_AT] == MAGIC_V1_LAST:
        topic_end = moved.body_end + 1 + record[moved.body_end]
    else:
        topic_end = moved.body_end + 2 + get16(record + moved.body_end)
    moved.properties_at = topic_end + PROPERTIES_LENGTH_BYTES
    return moved.properties_at <= moved.record_bytes


cdef bytes shape_of(const unsigned char *at, size_t size, ReaddressedRecord *moved):
    """Of properties: their shape; the key that is marked there, if any is, goes into `moved`."""
    cdef const unsigned char *end = at + size
    cdef const unsigned char *key = find(at, size, UNIQUE, UNIQUE_BYTES)
    cdef const unsigned char *found = NULL
    cdef size_t key_bytes = 0, marks = 0
    cdef bytes shape
    cdef unsigned char *out
    moved.key, moved.key_bytes = NULL, 0
    if key != NULL:
        key += UNIQUE_BYTES
        found = <const unsigned char *>memchr(key, VALUE_END, end - key)
        key_bytes = (end if found == NULL else found) - key
    if key_bytes < KEY_BYTES_MIN or not is_alphanumeric(key, key_bytes) or memchr(at, 0, size) != NULL:
        return PyBytes_FromStringAndSize(<char *>at, size)
    moved.key, moved.key_bytes = key, key_bytes
    found = find(at, size, <char *>key, key_bytes)
    while found != NULL:
        marks, found = marks + 1, find(found + key_bytes, end - found - key_bytes, <char *>key, key_bytes)
    shape = PyBytes_FromStringAndSize(NULL, size - marks * (key_bytes - 1))
    out, found = bytes_of(shape), find(at, size, <char *>key, key_bytes)
    while found != NULL:
        memcpy(out, at, found - at)
        out += found - at
        out[0] = 0
        out, at = out + 1, found + key_bytes
        found = find(at, end - at, <char *>key, key_bytes)
    memcpy(out, at, end - at)
    return shape


cdef class _Address:
    """Where records go, as the loops want it."""

    cdef object topic
    cdef object queue_id
    cdef object code
    cdef bytes topic_bytes
    cdef bytes properties  # None: their own
    cdef size_t marks  # in those
    cdef tuple keys
    cdef tuple other_keys  # than the unique one
    cdef int32_t queue_number
    cdef int32_t magic
    cdef bint commits

    def __init__(self, address):
        self.topic, self.queue_id, self.magic, self.topic_bytes, self.code, self.keys, self.properties, self.commits = address
        self.queue_number = self.queue_id
        self.other_keys = self.keys[1:]
        self.marks = 0 if self.properties is None else self.properties.count(b"\0")

    cdef bint fit(self, ReaddressedRecord *moved, size_t more_bytes, int64_t room_bytes):
        """What a measured record will be; False when it is for the general way."""
        cdef size_t kept_bytes
        if self.properties is None:
            kept_bytes = moved.record_bytes - moved.properties_at
        else:
            kept_bytes = len(self.properties)
            if moved.key != NULL:
                kept_bytes = kept_bytes - self.marks + self.marks * moved.key_bytes
        moved.properties_bytes = kept_bytes + more_bytes
        moved.size = moved.body_end + len(self.topic_bytes) + PROPERTIES_LENGTH_BYTES + moved.properties_bytes
        moved.sys_flag = <int32_t>get32(moved.record + SYS_FLAG_AT)
        if self.commits:
            moved.sys_flag = moved.sys_flag & ~TRANSACTION_MASK | TRANSACTION_COMMIT
        return <int64_t>moved.size <= room_bytes and not moved.sys_flag & TRANSACTION_PREPARED and moved.properties_bytes <= PROPERTIES_BYTES_MAX

    cdef tuple found_by(self, ReaddressedRecord *moved):
        """The keys of one record."""
        if moved.key == NULL:
            return self.keys
        return with_first(PyUnicode_DecodeUTF8(<char *>moved.key, moved.key_bytes, NULL), self.other_keys)

    cdef int write(self, _Pieces out, ReaddressedRecord *moved, bytes more, int64_t queue_offset, int64_t position, int64_t timestamp) except -1:
        """The record at its new place; it fits there."""
        cdef const unsigned char *record = moved.record
        cdef unsigned char *start
        cdef unsigned char *at
        cdef size_t part
        out.make_room(moved.size)
        start = out.at
        put32(start, <uint32_t>moved.size)
        put32(start + MAGIC_AT, <uint32_t>self.magic)
        memcpy(start + CRC_AT, record + CRC_AT, 4)
        put32(start + QUEUE_ID_AT, <uint32_t>self.queue_number)
        memcpy(start + FLAG_AT, record + FLAG_AT, 4)
        put64(start + QUEUE_OFFSET_AT, <uint64_t>queue_offset)
        put64(start + PHYSICAL_OFFSET_AT, <uint64_t>position)
        put32(start + SYS_FLAG_AT, <uint32_t>moved.sys_flag)
        part = TIMESTAMP_BYTES + moved.born_host_bytes
        memcpy(start + BORN_TIMESTAMP_AT, record + BORN_TIMESTAMP_AT, part)
        at = start + BORN_TIMESTAMP_AT + part
        put64(at, <uint64_t>timestamp)
        at += TIMESTAMP_BYTES
        part = moved.store_host_bytes + RECONSUME_TIMES_BYTES
        memcpy(at, record + (at - start), part)
        at += part
        if self.commits:
            memcpy(at, record + PHYSICAL_OFFSET_AT, 8)
        else:
            put64(at, 0)
        at += 8
        part = moved.body_end - (moved.fixed - 4)  # the body, with its length
        memcpy(at, record + moved.fixed - 4, part)
        at = copied(at + part, self.topic_bytes)
        put16(at, <uint16_t>moved.properties_bytes)
        at += PROPERTIES_LENGTH_BYTES
        if self.properties is None:
            part = moved.record_bytes - moved.properties_at
            memcpy(at, record + moved.properties_at, part)
            at += part
        elif moved.key == NULL:
            at = copied(at, self.properties)
        else:
            at = copied_with_key(at, self.properties, moved.key, moved.key_bytes)
        out.at = copied(at, more)
        return 0
