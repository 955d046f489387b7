# Readdressing: copying records of the log to another queue. Modules include this file behind `pieces.pxi`.

from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.string cimport memchr, memcmp

include "record_layout.pxi"

cdef extern from "header_reader.h" nogil:
    bint is_alphanumeric(const unsigned char *text, size_t size)
    const unsigned char *find(const unsigned char *text, size_t size, const char *word, size_t word_size)

cdef enum:
    HEAD_BYTES = BORN_TIMESTAMP_AT  # up to and with the sys flag
    FIXED_BYTES = BODY_AT - 2 * V4_BYTES  # a record's bytes before its body, without the two hosts
    KEY_BYTES_MIN = 16  # a shorter unique key may also occur within other words
    UNIQUE_BYTES = 9  # the unique key's property name, with the byte that ends it
    VALUE_END = 2

cdef const char *UNIQUE = b"UNIQ_KEY\x01"


cdef struct ReaddressedRecord:
    const unsigned char *record
    size_t record_bytes
    # Where the parts of the record lie.
    size_t born_host_bytes
    size_t store_host_bytes
    size_t fixed
    size_t body_end
    size_t properties_at
    # The unique key that replaces the marks in the kept properties; NULL when there are none.
    const unsigned char *key
    size_t key_bytes
    # The readdressed record.
    int32_t sys_flag
    size_t properties_bytes
    size_t size


cdef bint measure(ReaddressedRecord *readdressed) noexcept nogil:
    """Find where the parts of the record lie. Return False when they do not fit into it."""
    cdef const unsigned char *record = readdressed.record
    cdef int64_t body_bytes
    cdef size_t topic_end
    if readdressed.record_bytes < FIXED_BYTES + 2 * V4_BYTES:
        return False
    readdressed.born_host_bytes = V6_BYTES if record[SYS_FLAG_LAST_AT] & BORN_HOST_V6 else V4_BYTES
    readdressed.store_host_bytes = V6_BYTES if record[SYS_FLAG_LAST_AT] & STORE_HOST_V6 else V4_BYTES
    readdressed.fixed = FIXED_BYTES + readdressed.born_host_bytes + readdressed.store_host_bytes
    if readdressed.record_bytes < readdressed.fixed + 1:
        return False
    body_bytes = <int32_t>get32(record + readdressed.fixed - 4)
    if body_bytes < 0 or readdressed.fixed + body_bytes + 2 > readdressed.record_bytes:
        return False
    readdressed.body_end = readdressed.fixed + body_bytes
    if record[MAGIC_LAST_AT] == MAGIC_V1_LAST:
        topic_end = readdressed.body_end + 1 + record[readdressed.body_end]
    else:
        topic_end = readdressed.body_end + 2 + get16(record + readdressed.body_end)
    readdressed.properties_at = topic_end + PROPERTIES_LENGTH_BYTES
    return readdressed.properties_at <= readdressed.record_bytes


cdef bytes shape_of(const unsigned char *at, size_t size, ReaddressedRecord *readdressed):
    """Return the shape of properties. The key that the shape has marks for goes into `readdressed`."""
    cdef const unsigned char *end = at + size
    cdef const unsigned char *key = find(at, size, UNIQUE, UNIQUE_BYTES)
    cdef const unsigned char *found = NULL
    cdef size_t key_bytes = 0, marks = 0
    cdef bytes shape
    cdef unsigned char *out
    readdressed.key, readdressed.key_bytes = NULL, 0
    if key != NULL:
        key += UNIQUE_BYTES
        found = <const unsigned char *>memchr(key, VALUE_END, end - key)
        key_bytes = (end if found == NULL else found) - key
    if key_bytes < KEY_BYTES_MIN or not is_alphanumeric(key, key_bytes) or memchr(at, 0, size) != NULL:
        return PyBytes_FromStringAndSize(<char *>at, size)
    readdressed.key, readdressed.key_bytes = key, key_bytes
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
    """An `Address`, unpacked for the loops."""

    cdef object topic
    cdef object queue_id
    cdef object code
    cdef bytes topic_bytes
    cdef bytes properties  # None: each record keeps its own
    cdef size_t marks  # in the properties
    cdef tuple keys
    cdef tuple other_keys  # all but the unique key
    cdef int32_t queue_number
    cdef int32_t magic
    cdef bint commits

    def __init__(self, address):
        self.topic, self.queue_id, self.magic, self.topic_bytes, self.code, self.keys, self.properties, self.commits = address
        self.queue_number = self.queue_id
        self.other_keys = self.keys[1:]
        self.marks = 0 if self.properties is None else self.properties.count(b"\0")

    cdef bint fit(self, ReaddressedRecord *readdressed, size_t more_bytes, int64_t room_bytes):
        """Compute the size of the readdressed record. Return False when it is for the general path."""
        cdef size_t kept_bytes
        if self.properties is None:
            kept_bytes = readdressed.record_bytes - readdressed.properties_at
        else:
            kept_bytes = len(self.properties)
            if readdressed.key != NULL:
                kept_bytes = kept_bytes - self.marks + self.marks * readdressed.key_bytes
        readdressed.properties_bytes = kept_bytes + more_bytes
        readdressed.size = readdressed.body_end + len(self.topic_bytes) + PROPERTIES_LENGTH_BYTES + readdressed.properties_bytes
        readdressed.sys_flag = <int32_t>get32(readdressed.record + SYS_FLAG_AT)
        if self.commits:
            readdressed.sys_flag = readdressed.sys_flag & ~TRANSACTION_MASK | TRANSACTION_COMMIT
        return <int64_t>readdressed.size <= room_bytes and not readdressed.sys_flag & TRANSACTION_PREPARED and readdressed.properties_bytes <= PROPERTIES_BYTES_MAX

    cdef tuple index_keys(self, ReaddressedRecord *readdressed):
        """Return the keys of one record in the index."""
        if readdressed.key == NULL:
            return self.keys
        return prepend(PyUnicode_DecodeUTF8(<char *>readdressed.key, readdressed.key_bytes, NULL), self.other_keys)

    cdef int write(self, _Pieces out, ReaddressedRecord *readdressed, bytes more, int64_t queue_offset, int64_t position, int64_t timestamp) except -1:
        """Write the readdressed record to `out`. `fit` has returned True for it."""
        cdef const unsigned char *record = readdressed.record
        cdef unsigned char *start
        cdef unsigned char *at
        cdef size_t part
        out.make_room(readdressed.size)
        start = out.at
        put32(start, <uint32_t>readdressed.size)
        put32(start + MAGIC_AT, <uint32_t>self.magic)
        memcpy(start + CRC_AT, record + CRC_AT, 4)
        put32(start + QUEUE_ID_AT, <uint32_t>self.queue_number)
        memcpy(start + FLAG_AT, record + FLAG_AT, 4)
        put64(start + QUEUE_OFFSET_AT, <uint64_t>queue_offset)
        put64(start + PHYSICAL_OFFSET_AT, <uint64_t>position)
        put32(start + SYS_FLAG_AT, <uint32_t>readdressed.sys_flag)
        part = TIMESTAMP_BYTES + readdressed.born_host_bytes
        memcpy(start + BORN_TIMESTAMP_AT, record + BORN_TIMESTAMP_AT, part)
        at = start + BORN_TIMESTAMP_AT + part
        put64(at, <uint64_t>timestamp)
        at += TIMESTAMP_BYTES
        part = readdressed.store_host_bytes + RECONSUME_TIMES_BYTES
        memcpy(at, record + (at - start), part)
        at += part
        if self.commits:
            memcpy(at, record + PHYSICAL_OFFSET_AT, 8)
        else:
            put64(at, 0)
        at += 8
        part = readdressed.body_end - (readdressed.fixed - 4)  # the body, with its length
        memcpy(at, record + readdressed.fixed - 4, part)
        at = copy_bytes(at + part, self.topic_bytes)
        put16(at, <uint16_t>readdressed.properties_bytes)
        at += PROPERTIES_LENGTH_BYTES
        if self.properties is None:
            part = readdressed.record_bytes - readdressed.properties_at
            memcpy(at, record + readdressed.properties_at, part)
            at += part
        elif readdressed.key == NULL:
            at = copy_bytes(at, self.properties)
        else:
            at = copy_with_key(at, self.properties, readdressed.key, readdressed.key_bytes)
        out.at = copy_bytes(at, more)
        return 0
