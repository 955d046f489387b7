# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Twins of `broker/send/fast_loop.py` and `broker/send/responses.py`: from the frames of plain sends to records, and to responses.

Plain ends of transactions may stand between the sends (`transaction_ends.pxi`). The loop stops at a header that `send_header.h`
cannot read, and the reference continues there: an unknown header costs time and changes nothing. A batch is read and written in
one pass; when one of its messages is not for the fast path, all of them are taken back.
"""

from cpython.unicode cimport PyUnicode_DecodeASCII
from libc.stdlib cimport free, malloc

include "source_digest.pxi"
include "pieces.pxi"

cdef extern from "numbers.h" nogil:
    unsigned char *put_decimal(unsigned char *at, int64_t value)
    unsigned char *put_hexadecimal(unsigned char *at, uint64_t value)

cdef extern from "crc32.h" nogil:
    uint32_t crc32_of(const unsigned char *data, size_t size)

cdef extern from "send_header.h" nogil:
    ctypedef struct Text:
        const unsigned char *at
        size_t size

    ctypedef struct Send:
        Text topic
        Text properties
        int32_t queue_id
        int32_t sys_flag
        int32_t flag
        int32_t reconsume_times
        int32_t opaque
        int64_t born_timestamp
        bint is_oneway
        bint is_batch

    bint read_send(const unsigned char *header, size_t size, unsigned char *unescaped, Send *send)
    bint read_binary_send(const unsigned char *header, size_t size, Send *send)

cdef enum:
    END_CODE = 37
    END_BYTES = 11  # the length of END_START
    RETRY_BYTES = 7  # the length of RETRY_PREFIX
    ENTRY_BODY_AT = 20  # in a batch: size, magic, CRC, flag, length of the body
    ENTRY_BYTES_MIN = 22  # with the length of the properties
    ENTRY_FLAG_AT = 12
    ENTRY_BODY_LENGTH_AT = 16
    ID_BYTES = 17  # of an offset id without its prefix, and a comma
    USUAL_HEAD_BYTES = 128  # of a record in a batch: what stands before its body and between that and its properties
    USUAL_BYTES = 2048  # the guessed size of a committed message, when a read event has no sends
    COMMITTED_BYTES_MAX = 1 << 20  # room that is made for committed messages before their number is known

cdef const char *END_START = b'{"code":37,'  # how the JSON header of an END_TRANSACTION request begins
cdef const char *RETRY_PREFIX = b"%RETRY%"
cdef bytes MARK = b"\0"  # where the unique key goes


cdef inline bint is_same(const unsigned char *at, size_t size, bytes known):
    return known is not None and <size_t>PyBytes_Size(known) == size and memcmp(at, bytes_of(known), size) == 0


include "readdress.pxi"
include "transaction_ends.pxi"
include "send_properties.pxi"
include "send_answers.pxi"


# --- records


cdef class _Stored:
    """A `TargetTopic`, unpacked for the loop."""

    cdef object topic
    cdef object topic_bytes
    cdef dict next_offsets
    cdef int64_t queues
    cdef int32_t magic

    def __init__(self, target):
        self.topic, self.queues, self.magic, self.topic_bytes, self.next_offsets = target


cdef class _Placement:
    """A `Placement`, unpacked for the loop."""

    cdef _Stored stored
    cdef object queue
    cdef object entry
    cdef int32_t kept_flags
    cdef bytes more
    cdef size_t marks  # in `more`
    cdef bytes recall_words

    def __init__(self, placement):
        target, self.queue, self.entry, self.kept_flags, self.more, self.recall_words = placement
        self.stored = _Stored(target)
        self.marks = self.more.count(MARK)


cdef const char *BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


cdef bytes base64(bytes words):
    """Encode in base64 with the alphabet for URLs."""
    cdef Py_ssize_t left = len(words)
    cdef bytes text = PyBytes_FromStringAndSize(NULL, (left + 2) // 3 * 4)
    cdef unsigned char *out = bytes_of(text)
    cdef const unsigned char *at = bytes_of(words)
    cdef uint32_t bits
    while left > 0:
        bits = at[0] << 16 | (at[1] << 8 if left > 1 else 0) | (at[2] if left > 2 else 0)
        out[0], out[1] = BASE64[bits >> 18], BASE64[bits >> 12 & 63]
        out[2] = BASE64[bits >> 6 & 63] if left > 1 else b"="
        out[3] = BASE64[bits & 63] if left > 2 else b"="
        out, at, left = out + 4, at + 3, left - 3
    return text


cdef unsigned char *write_record(
    unsigned char *record, Send *send, _Stored stored, int32_t queue_id, int64_t queue_offset, int64_t position, int32_t sys_flag,
    int32_t flag, int64_t timestamp, bytes born_host, bytes store_host, Text body, Text properties, size_t more_bytes
) except NULL:
    """Write a record up to its own properties, behind which the caller writes `more_bytes`. Return where they go."""
    cdef unsigned char *at = record + 12
    put32(record + MAGIC_AT, <uint32_t>stored.magic)
    put32(record + CRC_AT, crc32_of(body.at, body.size) & 0x7FFFFFFF)
    put32(at, <uint32_t>queue_id)
    put32(at + 4, <uint32_t>flag)
    put64(at + 8, <uint64_t>queue_offset)
    put64(at + 16, <uint64_t>position)
    put32(at + 24, <uint32_t>sys_flag)
    put64(at + 28, <uint64_t>send.born_timestamp)
    at = copy_bytes(at + 36, born_host)
    put64(at, <uint64_t>timestamp)
    at = copy_bytes(at + 8, store_host)
    put32(at, <uint32_t>send.reconsume_times)
    put64(at + 4, 0)
    put32(at + 12, <uint32_t>body.size)
    memcpy(at + 16, body.at, body.size)
    at = copy_bytes(at + 16 + body.size, stored.topic_bytes)
    put16(at, <uint16_t>(properties.size + more_bytes))
    memcpy(at + PROPERTIES_LENGTH_BYTES, properties.at, properties.size)
    at += PROPERTIES_LENGTH_BYTES + properties.size
    put32(record, <uint32_t>(at - record + more_bytes))
    return at


cdef inline bint is_end(bint is_binary, const unsigned char *header, size_t size):
    if is_binary:
        return size >= 2 and get16(header) == END_CODE
    return size >= END_BYTES and memcmp(header, END_START, END_BYTES) == 0


cdef size_t count_entries(const unsigned char *body, size_t size) noexcept:
    """Count the messages of a batch; 0 if its lengths do not fit together, as in a body that is no batch."""
    cdef size_t count = 0, entry_bytes, at = 0
    while size - at >= ENTRY_BYTES_MIN:
        entry_bytes = get32(body + at)
        if entry_bytes < ENTRY_BYTES_MIN or entry_bytes > size - at:
            return 0
        at, count = at + entry_bytes, count + 1
    return count if at == size else 0


cdef bint read_entry(Text *left, Text *body, Text *properties, int32_t *flag) noexcept:
    """Read the next message of a batch. Return False if its lengths do not fit together."""
    cdef const unsigned char *at = left.at
    cdef size_t size, body_bytes
    if left.size < ENTRY_BYTES_MIN:
        return False
    size, body_bytes = get32(at), get32(at + ENTRY_BODY_LENGTH_AT)
    if size < ENTRY_BYTES_MIN or size > left.size or body_bytes > size - ENTRY_BYTES_MIN:
        return False
    flag[0] = <int32_t>get32(at + ENTRY_FLAG_AT)
    body[0] = Text(at + ENTRY_BODY_AT, body_bytes)
    properties[0] = Text(at + ENTRY_BYTES_MIN + body_bytes, size - ENTRY_BYTES_MIN - body_bytes)
    left[0] = Text(at + size, left.size - size)
    return properties.size <= PROPERTIES_BYTES_MAX and get16(properties.at - PROPERTIES_LENGTH_BYTES) == properties.size


def place_run(list frames, Py_ssize_t first, batch, terms, lookups):
    cdef size_t sent_bytes = 0, header_bytes_max = 0, header_bytes, ends = 0, sends = 0, committed_bytes
    cdef Py_ssize_t number
    cdef unsigned char *text
    cdef _Pieces out
    cdef tuple frame
    for number in range(first, len(frames)):
        frame = <tuple>frames[number]
        serialization, header, body = frame
        header_bytes = PyBytes_Size(header)
        header_bytes_max = max(header_bytes, header_bytes_max)
        if is_end(bool(serialization), bytes_of(header), header_bytes):
            ends += 1
        else:
            sends, sent_bytes = sends + 1, sent_bytes + header_bytes + PyBytes_Size(body)
            sent_bytes += count_entries(bytes_of(body), PyBytes_Size(body)) * USUAL_HEAD_BYTES
    committed_bytes = ends * (sent_bytes // sends if sends else USUAL_BYTES)  # as if committed messages were as large as those in this read event
    out = _Pieces(batch.parts, sent_bytes + min(committed_bytes, <size_t>COMMITTED_BYTES_MAX))
    text = <unsigned char *>malloc(header_bytes_max or 1)
    if text == NULL:
        raise MemoryError
    known = batch.known
    if known is None:
        batch.known = known = _Known(lookups)
    try:
        return (<_SendLoop>_SendLoop(batch, terms, lookups, known, out)).place_frames(frames, first, text)
    finally:
        free(text)
        out.close()


cdef class _Known:
    """What is known from earlier sends of a batch, whichever connection they came over: topic and properties mostly recur."""

    cdef bytes topic
    cdef _Stored sent_to
    cdef _Properties sent  # of requests
    cdef _Properties batched  # of messages in batches
    cdef dict placements  # of this topic and profile, by queue id

    def __init__(self, lookups):
        self.sent, self.batched, self.placements = _Properties(lookups), _Properties(lookups), {}


cdef class _SendLoop:
    """One pass over the frames of a connection."""

    cdef object batch, lookups, contributor, timestamp, stored_next_offset
    cdef list dispatches, answers
    cdef _Pieces out
    cdef int64_t position, stop, stored_ms, header_bytes
    cdef size_t body_bytes_max, hosts_bytes
    cdef int32_t host_bits
    cdef bytes born_host, store_host, added
    cdef _Ends ends
    # The current send.
    cdef object serialization
    cdef Send send
    cdef _Known known
    cdef _Properties sent, batched  # the known ones

    def __init__(self, batch, terms, lookups, _Known known, _Pieces out):
        self.batch, self.lookups, self.out = batch, lookups, out
        self.known, self.sent, self.batched = known, known.sent, known.batched
        self.dispatches, self.answers = batch.dispatches, batch.answers
        self.position, self.stop, self.timestamp = batch.position, batch.stop, batch.timestamp
        self.header_bytes = batch.header_bytes
        self.stored_ms, self.stored_next_offset = self.timestamp, batch.stored_next_offset
        self.born_host, self.store_host, self.body_bytes_max, self.added, self.contributor = terms
        self.hosts_bytes = len(self.born_host) + len(self.store_host)
        self.host_bits = BORN_HOST_V6 if len(self.born_host) != V4_BYTES else 0
        self.host_bits |= STORE_HOST_V6 if len(self.store_host) != V4_BYTES else 0

    cdef Py_ssize_t place_frames(self, list frames, Py_ssize_t first, unsigned char *text) except -1:
        """Place frames until one needs the reference. Return its number. `text` has room for the longest header."""
        cdef Py_ssize_t number = first
        cdef const unsigned char *header
        cdef size_t header_bytes
        cdef object header_object
        cdef bytes body
        cdef bint is_binary
        while number < len(frames):
            self.serialization, header_object, body = <tuple>frames[number]
            header, header_bytes = bytes_of(header_object), PyBytes_Size(header_object)
            is_binary = bool(self.serialization)
            if self.contributor is not None and is_end(is_binary, header, header_bytes):
                if not self.place_end(is_binary, header, header_bytes):
                    break
            elif is_binary:
                if not (read_binary_send(header, header_bytes, &self.send) and self.place_send(body)):
                    break
            elif not (read_send(header, header_bytes, text, &self.send) and self.place_send(body)):
                break
            number += 1
        self.batch.position = self.position
        return number

    cdef bint place_end(self, bint is_binary, const unsigned char *header, size_t header_bytes) except -1:
        cdef End end
        if not (read_binary_end(header, header_bytes, &end) if is_binary else read_end(header, header_bytes, &end)):
            return False
        if self.ends is None:
            if self.batch.contribution is None:
                self.batch.contribution = self.contributor.begin(self.batch)
            self.ends = _Ends(self.batch.contribution, self.batch)
        self.position = self.ends.place(&end, self.position, self.stop, self.header_bytes, self.timestamp, self.out)
        return True

    cdef bint place_send(self, bytes body) except -1:
        """Place the message or messages of the current send. Return False if it is for the reference."""
        cdef Text text = Text(bytes_of(body), PyBytes_Size(body))
        if not self.find_target() or not self.sent.look_up(self.send.properties):
            return False
        if self.sent.is_changed:
            self.known.placements = {}
        if not 0 <= self.send.queue_id < self.known.sent_to.queues or text.size > self.body_bytes_max:
            return False
        return self.place_batch(text) if self.send.is_batch else self.place_message(text)

    cdef bint find_target(self) except -1:
        """Look up the topic, unless it is that of the last send."""
        cdef Text topic = self.send.topic
        if is_same(topic.at, topic.size, self.known.topic):
            return True
        target = self.lookups.target(PyUnicode_DecodeASCII(<char *>topic.at, topic.size, NULL), self.batch)
        if target is None:
            return False
        self.known.topic, self.known.sent_to = PyBytes_FromStringAndSize(<char *>topic.at, topic.size), _Stored(target)
        self.known.placements = {}
        return True

    cdef object next_offset(self, _Stored stored, queue):
        offset = stored.next_offsets.get(queue)
        return self.stored_next_offset((stored.topic, queue)) if offset is None else offset

    cdef bint place_message(self, Text body) except -1:
        """Write the record of the current send, and note its dispatch and its answer."""
        cdef int64_t queue_id = self.send.queue_id, queue_offset
        cdef int32_t sys_flag = self.send.sys_flag
        cdef size_t size, more_bytes = len(self.added)
        cdef Text unique = self.sent.unique
        cdef bint has_marks = False
        cdef unsigned char *at
        cdef _Stored stored = self.known.sent_to
        cdef _Placement placement
        cdef bytes key_bytes = PyBytes_FromStringAndSize(<char *>unique.at, unique.size), more = self.added
        cdef object queue, sent_queue, place, offset, entry = self.sent.code, handle = None
        cdef tuple keys
        queue = sent_queue = queue_id
        if self.sent.redirect is not None:
            placement = self.find_placement(queue) if unique.size else None
            if placement is None:
                return False
            stored, queue, entry, more, has_marks = placement.stored, placement.queue, placement.entry, placement.more, True
            more_bytes = len(more) - placement.marks + placement.marks * unique.size
            sys_flag, queue_id = sys_flag & placement.kept_flags, queue
            if placement.recall_words is not None:
                handle = base64(placement.recall_words.replace(MARK, key_bytes))
        size = self.record_bytes(stored) + body.size + self.send.properties.size + more_bytes
        if self.send.properties.size + more_bytes > PROPERTIES_BYTES_MAX or self.position + <int64_t>size > self.stop:
            return False
        keys = self.sent.index_keys()
        if sys_flag & TRANSACTION_MASK or keys is None:
            return False
        offset = self.next_offset(stored, queue)
        queue_offset = offset
        stored.next_offsets[queue] = queue_offset + 1
        self.out.make_room(size)
        at = write_record(
            self.out.at, &self.send, stored, <int32_t>queue_id, queue_offset, self.position, self.stored_flags(sys_flag),
            self.send.flag, self.stored_ms, self.born_host, self.store_host, body, self.send.properties, more_bytes
        )
        self.out.at = copy_with_key(at, more, unique.at, unique.size) if has_marks else copy_bytes(at, more)
        place = self.position
        self.dispatches.append((stored.topic, queue, offset, place, size, entry, self.timestamp, keys, sys_flag))
        if not self.send.is_oneway:
            self.answers.append((self.serialization, sent_queue, key_bytes, place, handle, offset, self.send.opaque))
        self.position += <int64_t>size + self.header_bytes
        return True

    cdef inline size_t record_bytes(self, _Stored stored) except 0:
        """Return the size of a record without body and properties."""
        return FIXED_BYTES + self.hosts_bytes + PyBytes_Size(stored.topic_bytes) + PROPERTIES_LENGTH_BYTES

    cdef inline int32_t stored_flags(self, int32_t sys_flag):
        return sys_flag & ~(BORN_HOST_V6 | STORE_HOST_V6) | self.host_bits

    cdef bint place_batch(self, Text body) except -1:
        """Write the records of a batch, and note their dispatches and one answer. Place all of them or none."""
        cdef size_t count = count_entries(body.at, body.size), entry_bytes = ENTRY_BYTES_MIN, retry_bytes = RETRY_BYTES
        cdef size_t total = body.size + count * (self.record_bytes(self.known.sent_to) - entry_bytes)
        cdef Py_ssize_t dispatched = len(self.dispatches)
        cdef Text topic = self.send.topic
        cdef object queue = self.send.queue_id, offset = self.next_offset(self.known.sent_to, queue)
        cdef bytes key, ids, prefix
        if count == 0 or body.size > BATCH_BYTES_MAX or self.sent.redirect is not None or self.send.sys_flag & TRANSACTION_MASK:
            return False
        if topic.size >= retry_bytes and memcmp(topic.at, RETRY_PREFIX, retry_bytes) == 0:
            return False
        if self.send.properties.size > PROPERTIES_BYTES_MAX:
            return False
        if self.position + <int64_t>total + (<int64_t>count - 1) * self.header_bytes > self.stop:
            return False
        self.out.make_room(total)
        if not self.write_batch(body, queue, offset):
            del self.dispatches[dispatched:]
            return False
        if not self.send.is_oneway:
            key = PyBytes_FromStringAndSize(<char *>self.sent.unique.at, self.sent.unique.size)
            prefix = self.store_host.hex().upper().encode()
            ids = PyBytes_FromStringAndSize(NULL, count * (PyBytes_Size(prefix) + ID_BYTES) - 1)
            self.write_ids(bytes_of(ids), prefix, dispatched)
            self.answers.append((self.serialization, queue, key, ids, None, offset, self.send.opaque))
        self.known.sent_to.next_offsets[queue] = offset + count
        self.out.at += total
        self.position += <int64_t>total + <int64_t>count * self.header_bytes
        return True

    cdef bint write_batch(self, Text left, object queue, object first_offset) except -1:
        """Write the records behind those in `out`, which has room for them, and note their dispatches."""
        cdef Text body, properties
        cdef int32_t flag, queue_id = self.send.queue_id, sys_flag = self.stored_flags(self.send.sys_flag)
        cdef int64_t queue_offset = first_offset, position = self.position
        cdef unsigned char *start = self.out.at
        cdef unsigned char *at = start
        cdef _Stored stored = self.known.sent_to
        cdef _Properties batched = self.batched
        cdef object flags = self.send.sys_flag
        cdef tuple keys
        cdef size_t size
        while left.size:
            if not read_entry(&left, &body, &properties, &flag):
                return False
            if not batched.look_up(properties) or batched.redirect is not None:
                return False
            keys = batched.index_keys()
            if keys is None:
                return False
            start = at
            at = write_record(
                start, &self.send, stored, queue_id, queue_offset, position, sys_flag,
                flag, self.stored_ms, self.born_host, self.store_host, body, properties, 0
            )
            size = at - start
            self.dispatches.append((stored.topic, queue, queue_offset, position, size, batched.code, self.timestamp, keys, flags))
            position, queue_offset = position + <int64_t>size + self.header_bytes, queue_offset + 1
        return True

    cdef int write_ids(self, unsigned char *at, bytes prefix, Py_ssize_t dispatched) except -1:
        """Write the offset ids of the messages from this dispatch on, with commas between them."""
        cdef Py_ssize_t number
        for number in range(dispatched, len(self.dispatches)):
            if number > dispatched:
                at[0] = b","
                at += 1
            at = put_hexadecimal(copy_bytes(at, prefix), (<tuple>self.dispatches[number])[3])
        return 0

    cdef _Placement find_placement(self, queue):
        """Return where the redirect puts messages for a queue, or None for the reference."""
        placement = self.known.placements.get(queue)
        if placement is None:
            found = self.lookups.placement(self.sent.redirect, self.known.topic.decode(), queue, self.sent.code, self.batch)
            if found is not None:
                placement = self.known.placements[queue] = _Placement(found)
        return placement


# --- answers


def fill_frames(list rows, bytes id_prefix, tuple json, tuple binary):
    cdef size_t fixed_bytes = PREFIX_BYTES + NUMBERS_BYTES + len(id_prefix) + 16, room = 0, pieces_bytes
    cdef unsigned char *start
    cdef unsigned char *at
    cdef object answers, field
    cdef PyObject *cut
    cdef tuple row
    if len(json) != JSON_PIECES or len(binary) != BINARY_PIECES or PyBytes_Size(binary[0]) != BINARY_HEAD_BYTES:
        raise ValueError("an answer has other pieces")
    pieces_bytes = max(sizes_of(json), sizes_of(binary))
    for row in rows:
        room += fixed_bytes + pieces_bytes
        for field in row:
            if isinstance(field, bytes):
                room += PyBytes_Size(field)
    answers = PyBytes_FromStringAndSize(NULL, room)
    at = bytes_of(answers)
    for row in rows:
        start, at = at, at + PREFIX_BYTES
        at = put_binary(at, row, id_prefix, binary) if row[0] else put_json(at, row, id_prefix, json)
        put32(start, <uint32_t>(at - start - 4))
        put32(start + 4, <uint32_t>(at - start - PREFIX_BYTES) | (BINARY_MARK if row[0] else 0))
    room = at - bytes_of(answers)
    cut = <PyObject *>answers
    Py_INCREF(answers)
    answers = None
    if _PyBytes_Resize(&cut, room) < 0:
        raise MemoryError
    answers = <object>cut
    Py_DECREF(answers)
    return answers
