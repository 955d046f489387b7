# Plain ends of transactions, as `broker/transactions/end_fast_path.py` and `end_rules.py` define them. The send loop includes this
# file behind `readdress.pxi`.

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer

cdef extern from "end_header.h" nogil:
    ctypedef struct End:
        Text group
        int64_t place
        int64_t queue_offset
        int32_t outcome
        bint is_answer

    bint read_end(const unsigned char *header, size_t size, End *end)
    bint read_binary_end(const unsigned char *header, size_t size, End *end)

cdef enum:
    HALF_FIELD_BYTES = 26

cdef const unsigned char *HALF_FIELD = b"\0\x18RMQ_SYS_TRANS_HALF_TOPIC"  # as records with MAGIC_V2 hold it; with MAGIC the first byte is missing


cdef tuple end_as_tuple(End *end):
    group = PyUnicode_DecodeASCII(<char *>end.group.at, end.group.size, NULL)
    return end.place, end.queue_offset, end.outcome, group, end.is_answer


cdef class _Ends:
    """The ends of a read event (`EndContribution`), their half messages, and what is known of the last half message."""

    cdef Py_buffer view
    cdef int64_t start
    cdef int64_t first
    cdef int64_t end
    cdef dict known
    cdef object copies
    cdef bint has_copies
    cdef bytes shape  # of the last half message; what it means follows
    cdef Py_ssize_t key_at  # where the key stands in that shape; -1 when another mark stands before it
    cdef bytes group
    cdef bint has_immunity
    cdef _Address address
    cdef dict next_offsets  # of the topic that the last half message goes to
    cdef dict all_next_offsets
    cdef list ended
    cdef list deferred
    cdef list dispatches
    cdef object stored_next_offset

    def __cinit__(self, contribution, batch):
        self.ended, self.deferred = contribution.ended, contribution.deferred
        self.all_next_offsets, self.dispatches, self.stored_next_offset = batch.next_offsets, batch.dispatches, batch.stored_next_offset
        log, self.known, self.copies = contribution.halves
        segment, self.start, self.first, self.end = log
        self.has_copies = not self.copies.is_empty
        PyObject_GetBuffer(segment, &self.view, PyBUF_SIMPLE)

    def __dealloc__(self):
        PyBuffer_Release(&self.view)

    cdef bint read(self, End *end, ReaddressedRecord *readdressed) noexcept:
        """Whether a whole half message lies at the place that the end names. It goes into `readdressed`."""
        cdef int64_t at, stop = min(<int64_t>self.view.len, self.end - self.start)
        cdef const unsigned char *record
        cdef const unsigned char *field
        cdef uint32_t magic
        cdef size_t field_bytes
        if end.place < self.first or end.place < self.start:
            return False
        at = end.place - self.start
        if at > stop - HEAD_BYTES:
            return False
        record = <const unsigned char *>self.view.buf + at
        magic = get32(record + MAGIC_AT)
        if magic != MAGIC and magic != MAGIC_V2 or <int64_t>get64(record + PHYSICAL_OFFSET_AT) != end.place:
            return False
        if not HEAD_BYTES <= <int64_t><int32_t>get32(record) <= stop - at:
            return False
        readdressed.record, readdressed.record_bytes = record, get32(record)
        if not measure(readdressed):
            return False
        field, field_bytes = HALF_FIELD + (magic == MAGIC), HALF_FIELD_BYTES - (magic == MAGIC)
        return (
            readdressed.properties_at == readdressed.body_end + field_bytes + PROPERTIES_LENGTH_BYTES
            and memcmp(record + readdressed.body_end, field, field_bytes) == 0
            and get16(record + readdressed.properties_at - PROPERTIES_LENGTH_BYTES) == readdressed.record_bytes - readdressed.properties_at
        )

    cdef bint look_up(self, bytes shape) except -1:
        """Remember what a shape means. Return False when that is not known."""
        cdef object facts = self.known.get(shape)
        if facts is None:
            return False
        group, immunity, address = <tuple>facts
        self.shape, self.group, self.has_immunity = shape, None if group is None else group.encode(), bool(immunity)
        self.key_at = shape.find(UNIQUE) + UNIQUE_BYTES
        if shape.find(MARK) != self.key_at:
            self.key_at = -1
        self.address = None if address is None else _Address(address)
        if address is not None:
            self.next_offsets = self.all_next_offsets.setdefault(self.address.topic, {})
        return True

    cdef bint is_alike(self, ReaddressedRecord *readdressed) except -1:
        """Whether the half message has the properties of the last one, except for the key. The key goes into `readdressed`."""
        cdef const unsigned char *at = readdressed.record + readdressed.properties_at
        cdef const unsigned char *end = readdressed.record + readdressed.record_bytes
        cdef const unsigned char *shape
        cdef const unsigned char *shape_end
        cdef const unsigned char *mark
        cdef const unsigned char *key = at + self.key_at
        cdef const unsigned char *key_end
        cdef size_t key_bytes
        if self.shape is None or self.key_at < 0 or end <= key:
            return False
        key_end = <const unsigned char *>memchr(key, VALUE_END, end - key)
        key_bytes = key_end - key
        if key_end == NULL or key_bytes < KEY_BYTES_MIN or not is_alphanumeric(key, key_bytes):
            return False
        shape, shape_end = bytes_of(self.shape), bytes_of(self.shape) + PyBytes_Size(self.shape)
        mark = shape + self.key_at
        while mark != NULL:
            if end - at < mark - shape + <Py_ssize_t>key_bytes or memcmp(at, shape, mark - shape) != 0:
                return False
            at += mark - shape
            if memcmp(at, key, key_bytes) != 0:
                return False
            at, shape = at + key_bytes, mark + 1
            mark = <const unsigned char *>memchr(shape, 0, shape_end - shape)
        if end - at != shape_end - shape or memcmp(at, shape, end - at) != 0:
            return False
        readdressed.key, readdressed.key_bytes = key, key_bytes
        return True

    cdef bint is_plain(self, End *end, ReaddressedRecord *readdressed) except -1:
        """Whether the end is plain. Then `readdressed` is its half message and `address` says where that goes."""
        cdef bytes shape
        if end.outcome != TRANSACTION_COMMIT and end.outcome != TRANSACTION_ROLLBACK or not self.read(end, readdressed):
            return False
        if not self.is_alike(readdressed):
            shape = shape_of(readdressed.record + readdressed.properties_at, readdressed.record_bytes - readdressed.properties_at, readdressed)
            if not is_same(bytes_of(shape), PyBytes_Size(shape), self.shape) and not self.look_up(shape):
                return False
        if self.has_immunity or self.address is None or not is_same(end.group.at, end.group.size, self.group):
            return False
        if <int64_t>get64(readdressed.record + QUEUE_OFFSET_AT) != end.queue_offset:
            return False
        return not self.has_copies or not self.copies.knows(end.queue_offset)

    cdef int64_t place(
        self, End *end, int64_t position, int64_t stop, int64_t header_bytes, object timestamp, _Pieces out
    ) except -1:
        """Put what a plain end commits into the batch, and defer any other end. Return where the next record goes."""
        cdef ReaddressedRecord readdressed
        cdef object offset, place
        cdef _Address to
        cdef bint commits = end.outcome == TRANSACTION_COMMIT
        if not self.is_plain(end, &readdressed) or (commits and not self.address.fit(&readdressed, 0, stop - position)):
            self.deferred.append(end_as_tuple(end))
            return position
        self.ended.append(end.queue_offset)
        if not commits:
            return position
        to, place = self.address, position
        offset = self.next_offsets.get(to.queue_id)
        if offset is None:
            offset = self.stored_next_offset((to.topic, to.queue_id))
        self.next_offsets[to.queue_id] = offset + 1
        to.write(out, &readdressed, b"", offset, position, timestamp)
        self.dispatches.append((to.topic, to.queue_id, offset, place, readdressed.size, to.code, timestamp, to.index_keys(&readdressed), readdressed.sys_flag))
        return position + <int64_t>readdressed.size + header_bytes
