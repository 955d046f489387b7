# What queues and index need of records in the log. Modules include this file behind `readdress.pxi`.

cdef extern from "crc32.h" nogil:
    uint32_t crc32_of(const unsigned char *data, size_t size)

cdef bytes SCHEDULE_TOPIC = b"SCHEDULE_TOPIC_XXXX"  # its queue entries have the time of delivery


cdef class _RecordReader:
    """One pass over records. It remembers the topic and the properties of the last one, which mostly recur."""

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

    cdef object read(self, const unsigned char *record, int64_t available, int64_t offset):
        """Return what queues and index need of the sound record that lies at `offset` in the log; None for the reference."""
        cdef int64_t properties_bytes, topic_bytes, topic_at
        cdef ReaddressedRecord parts
        cdef tuple keys
        if available < FIXED_BYTES_MIN or not FIXED_BYTES_MIN <= <int64_t><int32_t>get32(record) <= available:
            return None
        parts.record, parts.record_bytes = record, get32(record)
        if <int64_t>get64(record + PHYSICAL_OFFSET_AT) != offset:
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
            offset,
            parts.record_bytes,
            self.code,
            <int64_t>get64(record + BORN_HOST_AT + parts.born_host_bytes),
            keys,
            <int32_t>get32(record + SYS_FLAG_AT),
        )

    cdef bint find_topic(self, const unsigned char *at, size_t size) except -1:
        """Decode the topic, unless it is that of the last record. Return False if it is for the reference."""
        if self.topic_known is not None and <size_t>PyBytes_Size(self.topic_known) == size and memcmp(at, bytes_of(self.topic_known), size) == 0:
            return True
        name = PyBytes_FromStringAndSize(<char *>at, size)
        if name == SCHEDULE_TOPIC or b"\0" in name:
            return False
        try:
            self.topic = name.decode()
        except UnicodeDecodeError:
            return False
        self.topic_known = name
        return True

    cdef bint find_shape(self, ReaddressedRecord *parts, size_t size) except -1:
        """Find what the properties mean, and the unique key. Return False if they are for the reference."""
        cdef bytes shape
        if memchr(parts.record + parts.properties_at, 0, size) != NULL:
            return False
        shape = shape_of(parts.record + parts.properties_at, size, parts)
        if shape != self.shape:
            facts = self.known.get(shape)
            if facts is None:
                facts = self.look_up(shape)
            if facts is None:
                return False
            self.code, self.keys, self.marks_key = facts
            self.shape = shape
        return not self.marks_key or parts.key != NULL
