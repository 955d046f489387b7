# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The twins of `store/moves.py` and `protocol/waiting_record.py`: records on their way from one queue to another.

Lengths that do not fit together send a move the general way, and are no record that waits.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.string cimport memchr, memcmp

include "pieces.pxi"

cdef extern from "send_header.h" nogil:
    bint is_alphanumeric(const unsigned char *text, size_t size)
    const unsigned char *find(const unsigned char *text, size_t size, const char *word, size_t word_size)

cdef enum:
    CRC_AT = 8
    FLAG_AT = 16
    PLACE_AT = 28
    SYS_FLAG_AT = 36
    BIRTH_AT = 40  # the born timestamp and host
    TIMESTAMP_BYTES = 8
    TRIES_BYTES = 4
    V4_BYTES = 8
    V6_BYTES = 20
    HEAD_BYTES = 40  # as far as the sys flag
    FIXED_BYTES = 72  # of a record before its body, beside the two hosts
    LENGTH_BYTES = 2  # of the properties
    QUEUE_OFFSET_AT = 20
    KEY_BYTES_MIN = 16  # of a unique key; a shorter one may be part of other words
    MAGIC_LAST_AT = 7
    MAGIC_V1_LAST = 0xA7
    PROPERTIES_BYTES_MAX = 32767
    BORN_HOST_V6 = 0x10
    STORE_HOST_V6 = 0x20
    TRANSACTION_MASK = 0xC
    TRANSACTION_COMMIT = 0x8
    UNQUEUED_BIT = 0x4

cdef enum:
    TOPIC_BYTES_MAX = 127
    TOPIC_BYTES_MAX_V2 = 32767

cdef uint32_t MAGIC = 0xDAA320A7
cdef uint32_t MAGIC_V2 = 0xDAA320AB
cdef bytes MARK = b"\0"
cdef const char *UNIQUE = b"UNIQ_KEY\x01"

cdef enum:
    UNIQUE_BYTES = 9
    VALUE_END = 2


cdef struct Lengths:
    size_t born_host
    size_t store_host
    size_t fixed
    size_t body_end
    size_t properties_at


cdef bint measure(const unsigned char *record, size_t size, Lengths *lengths) noexcept nogil:
    """Where a record has its parts; False when they do not fit in it."""
    cdef int64_t body_bytes
    cdef size_t topic_at
    if size < FIXED_BYTES + 2 * V4_BYTES:
        return False
    lengths.born_host = V6_BYTES if record[SYS_FLAG_AT + 3] & BORN_HOST_V6 else V4_BYTES
    lengths.store_host = V6_BYTES if record[SYS_FLAG_AT + 3] & STORE_HOST_V6 else V4_BYTES
    lengths.fixed = FIXED_BYTES + lengths.born_host + lengths.store_host
    if size < lengths.fixed + 1:
        return False
    body_bytes = <int32_t>get32(record + lengths.fixed - 4)
    if body_bytes < 0 or lengths.fixed + body_bytes + 2 > size:
        return False
    lengths.body_end = lengths.fixed + body_bytes
    if record[MAGIC_LAST_AT] == MAGIC_V1_LAST:
        topic_at = lengths.body_end + 1 + record[lengths.body_end]
    else:
        topic_at = lengths.body_end + 2 + get16(record + lengths.body_end)
    lengths.properties_at = topic_at + LENGTH_BYTES
    return lengths.properties_at <= size


def placed(moves, opening, next_offset):
    cdef list parts = []
    cdef list dispatches = []
    cdef dict taken = {}
    cdef int64_t position, stop
    cdef object move
    cdef Py_buffer view
    cdef _Pieces out
    cdef size_t usual_bytes = 0
    position, room_bytes, timestamp = opening
    stop = position + room_bytes
    for move in moves:
        usual_bytes += len((<tuple>move)[0]) + 64
    out = _Pieces(parts, usual_bytes)
    for move in moves:
        PyObject_GetBuffer((<tuple>move)[0], &view, PyBUF_SIMPLE)
        try:
            position = place(<unsigned char *>view.buf, view.len, <tuple>move, position, stop, timestamp, next_offset, taken, dispatches, out)
        finally:
            PyBuffer_Release(&view)
        if position < 0:
            return None
    out.close()
    return parts[0] if len(parts) == 1 else b"".join(parts), dispatches, taken


cdef int64_t place(
    const unsigned char *record, size_t record_bytes, tuple move, int64_t position, int64_t stop, object timestamp,
    object next_offset, dict taken, list dispatches, _Pieces out
) except -2:
    """Writes one record, and says where the next one goes; -1 when this is for the general way."""
    cdef Lengths lengths
    cdef bytes topic_bytes, kept = None, more
    cdef tuple keys
    cdef object key, properties, topic, queue_id, magic, code, commits, queue, offset, where
    cdef int32_t sys_flag
    cdef size_t kept_bytes, properties_bytes, size, part
    cdef unsigned char *start
    cdef unsigned char *at
    _, address, key, more = move
    topic, queue_id, magic, topic_bytes, code, keys, properties, commits = <tuple>address
    if not measure(record, record_bytes, &lengths):
        return -1
    if properties is not None:
        kept = properties if key is None else (<bytes>properties).replace(MARK, key)
    if key is not None:
        keys = ((<bytes>key).decode(),) + keys[1:]
    kept_bytes = record_bytes - lengths.properties_at if kept is None else len(kept)
    properties_bytes = kept_bytes + len(more)
    size = lengths.body_end + len(topic_bytes) + LENGTH_BYTES + properties_bytes
    sys_flag = <int32_t>get32(record + SYS_FLAG_AT)
    if commits:
        sys_flag = sys_flag & ~TRANSACTION_MASK | TRANSACTION_COMMIT
    if position + <int64_t>size > stop or sys_flag & UNQUEUED_BIT or properties_bytes > PROPERTIES_BYTES_MAX:
        return -1
    queue = (topic, queue_id)
    offset = taken.get(queue)
    if offset is None:
        offset = next_offset(queue)
    taken[queue] = offset + 1
    out.make_room(size)
    start = out.at
    put32(start, <uint32_t>size)
    put32(start + 4, <uint32_t><int32_t>magic)
    memcpy(start + CRC_AT, record + CRC_AT, 4)
    put32(start + CRC_AT + 4, <uint32_t><int32_t>queue_id)
    memcpy(start + FLAG_AT, record + FLAG_AT, 4)
    put64(start + FLAG_AT + 4, <uint64_t><int64_t>offset)
    put64(start + PLACE_AT, <uint64_t>position)
    put32(start + SYS_FLAG_AT, <uint32_t>sys_flag)
    part = TIMESTAMP_BYTES + lengths.born_host
    memcpy(start + BIRTH_AT, record + BIRTH_AT, part)
    at = start + BIRTH_AT + part
    put64(at, <uint64_t><int64_t>timestamp)
    at += TIMESTAMP_BYTES
    part = lengths.store_host + TRIES_BYTES
    memcpy(at, record + (at - start), part)
    at += part
    if commits:
        memcpy(at, record + PLACE_AT, 8)
    else:
        put64(at, 0)
    at += 8
    part = lengths.body_end - (lengths.fixed - 4)  # the body, with its length
    memcpy(at, record + lengths.fixed - 4, part)
    at = copied(at + part, topic_bytes)
    put16(at, <uint16_t>properties_bytes)
    at += LENGTH_BYTES
    if kept is None:
        memcpy(at, record + lengths.properties_at, kept_bytes)
        at += kept_bytes
    else:
        at = copied(at, kept)
    out.at = copied(at, more)
    where = position
    dispatches.append((topic, queue_id, offset, where, size, code, timestamp, keys, sys_flag))
    return position + <int64_t>size


def record_views(segment, int64_t start, int64_t first, int64_t end, offsets):
    cdef list found = []
    cdef Py_buffer view
    cdef int64_t offset, at, end_at
    cdef int32_t size
    cdef uint32_t magic
    cdef const unsigned char *record
    PyObject_GetBuffer(segment, &view, PyBUF_SIMPLE)
    try:
        end_at = min(<int64_t>view.len, end - start)
        for one in offsets:
            offset = one
            at = offset - start
            if offset >= first and 0 <= at <= end_at - HEAD_BYTES:
                record = <const unsigned char *>view.buf + at
                size, magic = <int32_t>get32(record), get32(record + 4)
                if (
                    <int64_t>get64(record + PLACE_AT) == offset
                    and (magic == <uint32_t>MAGIC or magic == <uint32_t>MAGIC_V2)
                    and HEAD_BYTES <= size <= end_at - at
                ):
                    found.append(segment[at : at + size])
                    continue
            found.append(None)
    finally:
        PyBuffer_Release(&view)
    return found


# --- records that wait


def waiting_records(records, str topic):
    cdef bytes name = topic.encode()
    cdef bytes short_field = bytes((len(name),)) + name if 0 < len(name) <= TOPIC_BYTES_MAX else None
    cdef bytes long_field = bytes((len(name) >> 8, len(name) & 0xFF)) + name if 0 < len(name) <= TOPIC_BYTES_MAX_V2 else None
    cdef Py_buffer view
    cdef list found = []
    if short_field is None:  # the reference knows what to say about such a topic
        from skyrocket.protocol.waiting_record import _waiting_records
        return _waiting_records(records, topic)
    for record in records:
        if record is None:
            found.append(None)
            continue
        PyObject_GetBuffer(record, &view, PyBUF_SIMPLE)
        try:
            found.append(waiting(record, <unsigned char *>view.buf, view.len, short_field, long_field))
        finally:
            PyBuffer_Release(&view)
    return found


cdef tuple shape_of(const unsigned char *at, size_t size):
    """Of properties: their shape, and the key that is marked there, if any is."""
    cdef const unsigned char *end = at + size
    cdef const unsigned char *key = find(at, size, UNIQUE, UNIQUE_BYTES)
    cdef const unsigned char *found = NULL
    cdef size_t key_bytes = 0, marks = 0
    cdef bytes shape
    cdef unsigned char *out
    if key != NULL:
        key += UNIQUE_BYTES
        found = <const unsigned char *>memchr(key, VALUE_END, end - key)
        key_bytes = (end if found == NULL else found) - key
    if key_bytes < KEY_BYTES_MIN or not is_alphanumeric(key, key_bytes) or memchr(at, 0, size) != NULL:
        return PyBytes_FromStringAndSize(<char *>at, size), None
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
    return shape, PyBytes_FromStringAndSize(<char *>key, key_bytes)


cdef object waiting(object record, const unsigned char *at, size_t size, bytes short_field, bytes long_field):
    cdef Lengths lengths
    cdef uint32_t magic
    cdef bytes field
    cdef object shape, key
    cdef size_t properties_bytes, stored_at
    if not measure(at, size, &lengths) or get32(at) != size:
        return None
    magic = get32(at + 4)
    field = short_field if magic == MAGIC else long_field if magic == MAGIC_V2 else None
    if field is None or lengths.properties_at != lengths.body_end + len(field) + LENGTH_BYTES:
        return None
    properties_bytes = size - lengths.properties_at
    if memcmp(at + lengths.body_end, bytes_of(field), len(field)) != 0 or get16(at + lengths.properties_at - 2) != properties_bytes:
        return None
    stored_at = BIRTH_AT + TIMESTAMP_BYTES + lengths.born_host
    shape, key = shape_of(at + lengths.properties_at, properties_bytes)
    return (
        record,
        shape,
        key,
        <int64_t>get64(at + QUEUE_OFFSET_AT),
        <int64_t>get64(at + PLACE_AT),
        <int64_t>get64(at + BIRTH_AT),
        <int64_t>get64(at + stored_at),
    )
