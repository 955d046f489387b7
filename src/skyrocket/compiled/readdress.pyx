# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Twins of `store/log/readdress.py`, `protocol/message/waiting_record.py` and `store/read/reading.py`.

They read records that wait under a system topic, and write them again under their own topic and queue. A record whose lengths do
not fit together goes to the reference.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer

include "source_digest.pxi"
include "pieces.pxi"
include "readdress.pxi"


def readdress_records(requests, opening, next_offset):
    cdef list parts = []
    cdef list dispatches = []
    cdef dict taken = {}
    cdef int64_t position, stop, header_bytes
    cdef object request, address, address_before = None
    cdef Py_buffer view
    cdef _Pieces out
    cdef _Address known = None
    cdef size_t usual_bytes = 0
    position, room_bytes, timestamp, header_bytes = opening
    stop = position + room_bytes
    for request in requests:
        usual_bytes += len((<tuple>request)[0]) + 64
    out = _Pieces(parts, usual_bytes)
    for request in requests:
        record, address, key, more = <tuple>request
        if address is not address_before:
            address_before, known = address, _Address(address)
        PyObject_GetBuffer(record, &view, PyBUF_SIMPLE)
        try:
            position = place(<unsigned char *>view.buf, view.len, known, key, more, position, stop, timestamp, next_offset, taken, dispatches, out)
        finally:
            PyBuffer_Release(&view)
        if position < 0:
            return None
        position += header_bytes
    out.close()
    return parts[0] if len(parts) == 1 else b"".join(parts), dispatches, taken


cdef int64_t place(
    const unsigned char *record, size_t record_bytes, _Address address, object key, bytes more, int64_t position, int64_t stop,
    object timestamp, object next_offset, dict taken, list dispatches, _Pieces out
) except -2:
    """Write one record. Return the position of the next one; -1 when the general path must store it."""
    cdef ReaddressedRecord readdressed
    cdef object queue, offset, where
    readdressed.record, readdressed.record_bytes, readdressed.key, readdressed.key_bytes = record, record_bytes, NULL, 0
    if key is not None:
        readdressed.key, readdressed.key_bytes = bytes_of(key), PyBytes_Size(key)
    if not measure(&readdressed) or not address.fit(&readdressed, len(more), stop - position):
        return -1
    queue = (address.topic, address.queue_id)
    offset = taken.get(queue)
    if offset is None:
        offset = next_offset(queue)
    taken[queue] = offset + 1
    address.write(out, &readdressed, more, offset, position, timestamp)
    where = position
    keys = address.index_keys(&readdressed)
    dispatches.append((address.topic, address.queue_id, offset, where, readdressed.size, address.code, timestamp, keys, readdressed.sys_flag))
    return position + <int64_t>readdressed.size


def record_views(segment, int64_t start, int64_t first, int64_t end, offsets):
    cdef list found = []
    cdef Py_buffer view
    cdef int64_t offset, at, end_at
    cdef int32_t size
    cdef uint32_t magic
    cdef const unsigned char *record
    PyObject_GetBuffer(segment, &view, PyBUF_SIMPLE)
    try:
        end_at = min(<int64_t>view.len, end - start) if end > start else 0
        for one in offsets:
            offset = one
            at = offset - start if offset >= start else -1
            if offset >= first and 0 <= at <= end_at - HEAD_BYTES:
                record = <const unsigned char *>view.buf + at
                size, magic = <int32_t>get32(record + SIZE_AT), get32(record + MAGIC_AT)
                if (
                    <int64_t>get64(record + PHYSICAL_OFFSET_AT) == offset
                    and (magic == <uint32_t>MAGIC or magic == <uint32_t>MAGIC_V2)
                    and HEAD_BYTES <= size <= end_at - at
                ):
                    found.append(segment[at : at + size])
                    continue
            found.append(None)
    finally:
        PyBuffer_Release(&view)
    return found


# --- waiting records


def parse_waiting_records(records, str topic):
    cdef bytes name = topic.encode()
    cdef bytes short_field = bytes((len(name),)) + name if 0 < len(name) <= TOPIC_BYTES_MAX else None
    cdef bytes long_field = bytes((len(name) >> 8, len(name) & 0xFF)) + name if 0 < len(name) <= TOPIC_BYTES_MAX_V2 else None
    cdef Py_buffer view
    cdef list found = []
    if short_field is None:  # the reference raises the error for such a topic
        from skyrocket.protocol.message.waiting_record import _parse_waiting_records
        return _parse_waiting_records(records, topic)
    for record in records:
        if record is None:
            found.append(None)
            continue
        PyObject_GetBuffer(record, &view, PyBUF_SIMPLE)
        try:
            found.append(parse_waiting_record(record, <unsigned char *>view.buf, view.len, short_field, long_field))
        finally:
            PyBuffer_Release(&view)
    return found


cdef object parse_waiting_record(object record, const unsigned char *at, size_t size, bytes short_field, bytes long_field):
    cdef ReaddressedRecord readdressed
    cdef uint32_t magic
    cdef bytes field, shape
    cdef size_t properties_bytes, stored_at
    readdressed.record, readdressed.record_bytes = at, size
    if not measure(&readdressed) or get32(at) != size:
        return None
    magic = get32(at + MAGIC_AT)
    field = short_field if magic == MAGIC else long_field if magic == MAGIC_V2 else None
    if field is None or readdressed.properties_at != readdressed.body_end + len(field) + PROPERTIES_LENGTH_BYTES:
        return None
    properties_bytes = size - readdressed.properties_at
    if memcmp(at + readdressed.body_end, bytes_of(field), len(field)) != 0 or get16(at + readdressed.properties_at - 2) != properties_bytes:
        return None
    stored_at = BORN_TIMESTAMP_AT + TIMESTAMP_BYTES + readdressed.born_host_bytes
    shape = shape_of(at + readdressed.properties_at, properties_bytes, &readdressed)
    return (
        record,
        shape,
        None if readdressed.key == NULL else PyBytes_FromStringAndSize(<char *>readdressed.key, readdressed.key_bytes),
        <int64_t>get64(at + QUEUE_OFFSET_AT),
        <int64_t>get64(at + PHYSICAL_OFFSET_AT),
        <int64_t>get64(at + BORN_TIMESTAMP_AT),
        <int64_t>get64(at + stored_at),
    )
