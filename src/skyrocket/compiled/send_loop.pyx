# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Twins of `broker/send/fast_loop.py` and `broker/send/responses.py`: from the frames of plain sends to records, and to responses.

Plain ends of transactions may stand between the sends (`transaction_ends.pxi`). The loop stops at a header that `send_header.h`
cannot read, and the reference continues there: an unknown header costs time and changes nothing.
"""

from cpython.unicode cimport PyUnicode_DecodeASCII
from libc.stdlib cimport free, malloc, realloc

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
        size_t properties_bytes
        int32_t queue_id
        int32_t sys_flag
        int32_t flag
        int32_t reconsume_times
        int32_t opaque
        int64_t born_timestamp

    bint read_send(const unsigned char *header, size_t size, unsigned char *properties, Send *send)

cdef enum:
    END_BYTES = 11  # the length of END_START
    USUAL_BYTES = 2048  # the guessed size of a committed message, when a read event has no sends
    COMMITTED_BYTES_MAX = 1 << 20  # room that is made for committed messages before their number is known

cdef const char *END_START = b'{"code":37,'  # how the header of an END_TRANSACTION request begins
cdef bytes MARK = b"\0"  # where the unique key goes


cdef inline bint is_same(const unsigned char *at, size_t size, bytes known):
    return known is not None and <size_t>PyBytes_Size(known) == size and memcmp(at, bytes_of(known), size) == 0


include "readdress.pxi"
include "transaction_ends.pxi"


cdef struct Buffer:
    unsigned char *at
    size_t size
    size_t room


cdef int make_room(Buffer *buffer, size_t more) except -1:
    """Make room for so many bytes behind those in the buffer."""
    cdef size_t room
    cdef unsigned char *grown
    if buffer.room - buffer.size >= more:
        return 0
    room = 2 * buffer.room + more
    grown = <unsigned char *>realloc(buffer.at, room)
    if grown == NULL:
        raise MemoryError
    buffer.at, buffer.room = grown, room
    return 0


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


cdef int write_record(
    _Pieces out, Send *send, _Stored stored, int32_t queue_id, int64_t queue_offset, int64_t position, int32_t sys_flag,
    int64_t timestamp, bytes born_host, bytes store_host, bytes body, const unsigned char *properties, size_t properties_bytes,
    bytes more, const unsigned char *key, size_t key_bytes
) except -1:
    """Write a record to `out`, which has room for it. A key that is not NULL replaces the marks in `more`."""
    cdef unsigned char *record = out.at
    cdef unsigned char *at = record + 12
    cdef size_t body_bytes = len(body)
    put32(record + MAGIC_AT, <uint32_t>stored.magic)
    put32(record + CRC_AT, crc32_of(bytes_of(body), body_bytes) & 0x7FFFFFFF)
    put32(at, <uint32_t>queue_id)
    put32(at + 4, <uint32_t>send.flag)
    put64(at + 8, <uint64_t>queue_offset)
    put64(at + 16, <uint64_t>position)
    put32(at + 24, <uint32_t>sys_flag)
    put64(at + 28, <uint64_t>send.born_timestamp)
    at = copy_bytes(at + 36, born_host)
    put64(at, <uint64_t>timestamp)
    at = copy_bytes(at + 8, store_host)
    put32(at, <uint32_t>send.reconsume_times)
    put64(at + 4, 0)
    put32(at + 12, <uint32_t>body_bytes)
    at = copy_bytes(copy_bytes(at + 16, body), stored.topic_bytes)
    put16(at, <uint16_t>properties_bytes)
    memcpy(at + PROPERTIES_LENGTH_BYTES, properties, send.properties_bytes)
    at += PROPERTIES_LENGTH_BYTES + send.properties_bytes
    at = copy_bytes(at, more) if key == NULL else copy_with_key(at, more, key, key_bytes)
    put32(record, <uint32_t>(at - record))
    out.at = at
    return 0


cdef inline bint is_end(const unsigned char *header, size_t size):
    return size >= END_BYTES and memcmp(header, END_START, END_BYTES) == 0


def place_run(list frames, Py_ssize_t first, batch, terms, lookups):
    cdef size_t sent_bytes = 0, header_bytes_max = 0, header_bytes, ends = 0, sends = 0, committed_bytes
    cdef Py_ssize_t number
    cdef unsigned char *text
    cdef _Pieces out
    cdef tuple frame
    for number in range(first, len(frames)):
        frame = <tuple>frames[number]
        _, header, body = frame
        header_bytes = PyBytes_Size(header)
        header_bytes_max = max(header_bytes, header_bytes_max)
        if is_end(bytes_of(header), header_bytes):
            ends += 1
        else:
            sends, sent_bytes = sends + 1, sent_bytes + header_bytes + PyBytes_Size(body)
    committed_bytes = ends * (sent_bytes // sends if sends else USUAL_BYTES)  # as if committed messages were as large as those in this read event
    out = _Pieces(batch.parts, sent_bytes + min(committed_bytes, <size_t>COMMITTED_BYTES_MAX))
    text = <unsigned char *>malloc(header_bytes_max or 1)
    if text == NULL:
        raise MemoryError
    try:
        return (<_SendLoop>_SendLoop(batch, terms, lookups, out)).place_frames(frames, first, text)
    finally:
        free(text)
        out.close()


cdef class _SendLoop:
    """One pass over the frames of a read event. It remembers the topic and the properties of the last send, which mostly recur."""

    cdef object batch, lookups, contributor, timestamp, stored_next_offset
    cdef list dispatches, answers
    cdef _Pieces out
    cdef unsigned char *text  # the properties of the current send
    cdef int64_t position, stop, stored_ms
    cdef size_t body_bytes_max, hosts_bytes
    cdef int32_t host_bits
    cdef bytes born_host, store_host, added
    cdef _Ends ends
    # The current send.
    cdef Send send
    cdef const unsigned char *unique  # its unique key, within `text`
    cdef size_t unique_bytes
    # What is known from earlier sends.
    cdef bytes topic_known, before_known, after_known
    cdef _Stored sent_to
    cdef bint is_fast
    cdef object code, redirect
    cdef tuple keys
    cdef dict placements  # of this topic and profile, by queue id

    def __init__(self, batch, terms, lookups, _Pieces out):
        self.batch, self.lookups, self.out = batch, lookups, out
        self.dispatches, self.answers, self.placements = batch.dispatches, batch.answers, {}
        self.position, self.stop, self.timestamp = batch.position, batch.stop, batch.timestamp
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
        cdef object serialization, header_object
        cdef bytes body
        self.text = text
        while number < len(frames):
            serialization, header_object, body = <tuple>frames[number]
            header, header_bytes = bytes_of(header_object), PyBytes_Size(header_object)
            if self.contributor is not None and not serialization and is_end(header, header_bytes):
                if not self.place_end(header, header_bytes):
                    break
            elif serialization or not read_send(header, header_bytes, text, &self.send):
                break
            elif not (self.find_target() and self.find_profile() and self.place_send(body)):
                break
            number += 1
        self.batch.position = self.position
        return number

    cdef bint place_end(self, const unsigned char *header, size_t header_bytes) except -1:
        cdef End end
        if not read_end(header, header_bytes, &end):
            return False
        if self.ends is None:
            if self.batch.contribution is None:
                self.batch.contribution = self.contributor.begin(self.batch)
            self.ends = _Ends(self.batch.contribution, self.batch)
        self.position = self.ends.place(&end, self.position, self.stop, self.timestamp, self.out)
        return True

    cdef bint find_target(self) except -1:
        """Look up the topic, unless it is that of the last send."""
        cdef Text topic = self.send.topic
        if is_same(topic.at, topic.size, self.topic_known):
            return True
        target = self.lookups.target(PyUnicode_DecodeASCII(<char *>topic.at, topic.size, NULL), self.batch)
        if target is None:
            return False
        self.topic_known, self.sent_to = PyBytes_FromStringAndSize(<char *>topic.at, topic.size), _Stored(target)
        self.placements = {}
        return True

    cdef bint find_profile(self) except -1:
        """Find the unique key, and look up the properties around it, unless they are those of the last send."""
        cdef const unsigned char *text = self.text
        cdef size_t text_bytes = self.send.properties_bytes, before_bytes, after_bytes
        cdef const unsigned char *unique = find(text, text_bytes, UNIQUE, UNIQUE_BYTES)
        cdef const unsigned char *after
        if unique == NULL:
            return False
        before_bytes, unique = unique - text, unique + UNIQUE_BYTES
        after = <unsigned char *>memchr(unique, VALUE_END, text + text_bytes - unique)
        if after == NULL or not is_alphanumeric(unique, after - unique):
            return False
        self.unique, self.unique_bytes, after = unique, after - unique, after + 1
        after_bytes = text + text_bytes - after
        if is_same(after, after_bytes, self.after_known) and is_same(text, before_bytes, self.before_known):
            return self.is_fast
        self.before_known = PyBytes_FromStringAndSize(<char *>text, before_bytes)
        self.after_known = PyBytes_FromStringAndSize(<char *>after, after_bytes)
        try:
            found = self.lookups.profile(self.before_known.decode(), self.after_known.decode())
        except UnicodeDecodeError:
            return False
        self.is_fast, self.code, self.keys, self.redirect = found
        self.placements = {}
        return self.is_fast

    cdef bint place_send(self, bytes body) except -1:
        """Write the record of the current send, and note its dispatch and its answer."""
        cdef int64_t queue_id = self.send.queue_id, queue_offset
        cdef int32_t sys_flag = self.send.sys_flag
        cdef size_t size, properties_bytes = self.send.properties_bytes + len(self.added)
        cdef const unsigned char *marked_key = NULL  # NULL: there are no marks to replace
        cdef _Stored stored = self.sent_to
        cdef _Placement placement
        cdef bytes key_bytes, more = self.added
        cdef object queue, sent_queue, place, offset, entry = self.code, handle = None, unique_key
        if not 0 <= queue_id < stored.queues:
            return False
        key_bytes = PyBytes_FromStringAndSize(<char *>self.unique, self.unique_bytes)
        unique_key = PyUnicode_DecodeASCII(<char *>self.unique, self.unique_bytes, NULL)
        queue = sent_queue = queue_id
        if self.redirect is not None:
            placement = self.find_placement(queue)
            if placement is None:
                return False
            stored, queue, entry, more = placement.stored, placement.queue, placement.entry, placement.more
            marked_key = self.unique
            properties_bytes = self.send.properties_bytes + len(more) - placement.marks + placement.marks * self.unique_bytes
            sys_flag, queue_id = sys_flag & placement.kept_flags, queue
            if placement.recall_words is not None:
                handle = base64(placement.recall_words.replace(MARK, key_bytes))
        size = FIXED_BYTES + self.hosts_bytes + len(body) + PyBytes_Size(stored.topic_bytes) + PROPERTIES_LENGTH_BYTES + properties_bytes
        if <size_t>len(body) > self.body_bytes_max or properties_bytes > PROPERTIES_BYTES_MAX:
            return False
        if self.position + <int64_t>size > self.stop or sys_flag & TRANSACTION_MASK:
            return False
        offset = stored.next_offsets.get(queue)
        if offset is None:
            offset = self.stored_next_offset((stored.topic, queue))
        queue_offset = offset
        stored.next_offsets[queue] = queue_offset + 1
        self.out.make_room(size)
        write_record(
            self.out, &self.send, stored, <int32_t>queue_id, queue_offset, self.position,
            sys_flag & ~(BORN_HOST_V6 | STORE_HOST_V6) | self.host_bits, self.stored_ms, self.born_host, self.store_host,
            body, self.text, properties_bytes, more, marked_key, self.unique_bytes
        )
        place = self.position
        self.dispatches.append((stored.topic, queue, offset, place, size, entry, self.timestamp, prepend(unique_key, self.keys), sys_flag))
        if handle is None:
            self.answers.append((sent_queue, key_bytes, place, offset, self.send.opaque))
        else:
            self.answers.append((sent_queue, key_bytes, place, handle, offset, self.send.opaque))
        self.position += size
        return True

    cdef _Placement find_placement(self, queue):
        """Return where the redirect puts messages for a queue, or None for the reference."""
        placement = self.placements.get(queue)
        if placement is None:
            found = self.lookups.placement(self.redirect, self.topic_known.decode(), queue, self.code, self.batch)
            if found is not None:
                placement = self.placements[queue] = _Placement(found)
        return placement


# --- answers


cdef enum:
    PIECES_MAX = 16


cdef struct Template:
    int pieces
    const unsigned char *at[PIECES_MAX]  # the text before each value, and the one behind the last
    size_t size[PIECES_MAX]
    char kind[PIECES_MAX]  # of the value behind each text; 0 behind the last
    size_t sizes  # the sum of all sizes


cdef int cut(bytes text, Template *template) except -1:
    """Cut a template with %d, %b and %016X into the texts between the values."""
    cdef const unsigned char *at = bytes_of(text)
    cdef const unsigned char *end = at + PyBytes_Size(text)
    cdef const unsigned char *found
    template.pieces, template.sizes = 0, 0
    while True:
        if template.pieces == PIECES_MAX:
            raise ValueError(f"The template has more than {PIECES_MAX} pieces.")
        found = <unsigned char *>memchr(at, b"%", end - at)
        template.at[template.pieces] = at
        template.kind[template.pieces] = 0
        if found == NULL:
            found = end
        elif end - found >= 2 and found[1] == b"%":
            found += 1  # %% stands for %
            template.kind[template.pieces] = b"%"
        elif end - found >= 2 and (found[1] == b"d" or found[1] == b"b"):
            template.kind[template.pieces] = found[1]
        elif end - found >= 5 and memcmp(found, b"%016X", 5) == 0:
            template.kind[template.pieces] = b"X"
        else:
            raise ValueError("The template has something else than %d, %b and %016X.")
        template.size[template.pieces] = found - at
        template.sizes += found - at
        template.pieces += 1
        if found == end:
            return 0
        at = found + (1 if template.kind[template.pieces - 1] == b"%" else 5 if template.kind[template.pieces - 1] == b"X" else 2)


cdef int fill(Buffer *out, Template *template, tuple row) except -1:
    cdef unsigned char *start
    cdef unsigned char *at
    cdef int piece, value = 0
    cdef size_t room = 8 + template.sizes + 20 * template.pieces
    for field in row:
        if isinstance(field, bytes):
            room += len(<bytes>field)
    make_room(out, room)
    start = out.at + out.size
    at = start + 8
    for piece in range(template.pieces):
        memcpy(at, template.at[piece], template.size[piece])
        at += template.size[piece]
        if template.kind[piece] == 0 or template.kind[piece] == b"%":
            continue
        if value >= len(row):
            raise TypeError("The row has fewer values than its template.")
        if template.kind[piece] == b"d":
            at = put_decimal(at, row[value])
        elif template.kind[piece] == b"X":
            at = put_hexadecimal(at, row[value])
        else:
            at = copy_bytes(at, row[value])
        value += 1
    if value != len(row):
        raise TypeError("The row has more values than its template.")
    put32(start, <uint32_t>(at - start - 4))
    put32(start + 4, <uint32_t>(at - start - 8))
    out.size += at - start
    return 0


def fill_frames(rows, bytes plain, bytes longer, Py_ssize_t plain_values):
    cdef Template short_one, long_one
    cdef Buffer out = Buffer(NULL, 0, 0)
    cdef tuple row
    cut(plain, &short_one)
    cut(longer, &long_one)
    try:
        for row in rows:
            fill(&out, &short_one if len(row) == plain_values else &long_one, row)
        return PyBytes_FromStringAndSize(<char *>out.at, out.size)
    finally:
        free(out.at)
