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
        return place_frames(frames, first, batch, terms, lookups, out, text)
    finally:
        free(text)
        out.close()


cdef Py_ssize_t place_frames(list frames, Py_ssize_t first, batch, terms, lookups, _Pieces out, unsigned char *text) except -1:
    cdef list dispatches = batch.dispatches
    cdef list answers = batch.answers
    cdef int64_t position = batch.position, stop = batch.stop
    cdef size_t body_bytes_max
    cdef bytes born_host, store_host, added
    cdef object timestamp = batch.timestamp, contributor, stored_next_offset = batch.stored_next_offset
    born_host, store_host, body_bytes_max, added, contributor = terms
    cdef int64_t stored_ms = timestamp
    cdef size_t hosts_bytes = len(born_host) + len(store_host)
    cdef int32_t host_bits = (BORN_HOST_V6 if len(born_host) != V4_BYTES else 0) | (STORE_HOST_V6 if len(store_host) != V4_BYTES else 0)
    cdef Py_ssize_t number = first
    cdef Send send
    cdef End end
    cdef const unsigned char *header
    cdef const unsigned char *unique
    cdef const unsigned char *after
    cdef const unsigned char *marked_key  # NULL: there are no marks to replace
    cdef size_t header_bytes, size, properties_bytes
    cdef size_t before_bytes, unique_bytes, after_bytes  # of the properties
    cdef int64_t queue_id, queue_offset
    cdef int32_t sys_flag
    cdef object frame, serialization, header_object, target, found, entry, handle, code, redirect, unique_key
    cdef object queue, offset, place, sent_queue
    cdef bytes body, key_bytes, more, topic_known = None, before_known = None, after_known = None
    cdef tuple keys
    cdef bint is_fast = False
    cdef _Stored sent_to = None, stored
    cdef dict placements = {}  # of this topic and profile, by queue id
    cdef _Placement placement
    cdef _Ends ends = None
    while number < len(frames):
        frame = frames[number]
        serialization, header_object, body = <tuple>frame
        header, header_bytes = bytes_of(header_object), PyBytes_Size(header_object)
        if contributor is not None and not serialization and is_end(header, header_bytes):
            if not read_end(header, header_bytes, &end):
                break
            if ends is None:
                if batch.contribution is None:
                    batch.contribution = contributor.begin(batch)
                ends = _Ends(batch.contribution, batch)
            position = ends.place(&end, position, stop, timestamp, out)
            number += 1
            continue
        if serialization or not read_send(header, header_bytes, text, &send):
            break
        # The topic and the properties around the unique key are mostly those of the message before.
        if not is_same(send.topic.at, send.topic.size, topic_known):
            target = lookups.target(PyUnicode_DecodeASCII(<char *>send.topic.at, send.topic.size, NULL), batch)
            if target is None:
                break
            topic_known, sent_to = PyBytes_FromStringAndSize(<char *>send.topic.at, send.topic.size), _Stored(target)
            placements = {}
        unique = find(text, send.properties_bytes, UNIQUE, UNIQUE_BYTES)
        if unique == NULL:
            break
        before_bytes, unique = unique - text, unique + UNIQUE_BYTES
        after = <unsigned char *>memchr(unique, VALUE_END, text + send.properties_bytes - unique)
        if after == NULL or not is_alphanumeric(unique, after - unique):
            break
        unique_bytes, after = after - unique, after + 1
        after_bytes = text + send.properties_bytes - after
        if not is_same(after, after_bytes, after_known) or not is_same(text, before_bytes, before_known):
            before_known = PyBytes_FromStringAndSize(<char *>text, before_bytes)
            after_known = PyBytes_FromStringAndSize(<char *>after, after_bytes)
            try:
                found = lookups.profile(before_known.decode(), after_known.decode())
            except UnicodeDecodeError:
                break
            is_fast, code, keys, redirect = found
            placements = {}
        queue_id, sys_flag = send.queue_id, send.sys_flag
        if not is_fast or not 0 <= queue_id < sent_to.queues:
            break
        key_bytes = PyBytes_FromStringAndSize(<char *>unique, unique_bytes)
        unique_key = PyUnicode_DecodeASCII(<char *>unique, unique_bytes, NULL)
        stored, entry, more, handle = sent_to, code, added, None
        marked_key, properties_bytes = NULL, send.properties_bytes + len(added)
        queue = sent_queue = queue_id
        if redirect is not None:
            placement = placements.get(queue)
            if placement is None:
                found = lookups.placement(redirect, topic_known.decode(), queue, code, batch)
                if found is None:
                    break
                placements[queue] = placement = _Placement(found)
            stored, queue, entry, more = placement.stored, placement.queue, placement.entry, placement.more
            marked_key, properties_bytes = unique, send.properties_bytes + len(more) - placement.marks + placement.marks * unique_bytes
            sys_flag, queue_id = sys_flag & placement.kept_flags, queue
            if placement.recall_words is not None:
                handle = base64(placement.recall_words.replace(MARK, key_bytes))
        size = FIXED_BYTES + hosts_bytes + len(body) + PyBytes_Size(stored.topic_bytes) + PROPERTIES_LENGTH_BYTES + properties_bytes
        if <size_t>len(body) > body_bytes_max or properties_bytes > PROPERTIES_BYTES_MAX or position + <int64_t>size > stop:
            break
        if sys_flag & TRANSACTION_MASK:
            break
        offset = stored.next_offsets.get(queue)
        if offset is None:
            offset = stored_next_offset((stored.topic, queue))
        queue_offset = offset
        stored.next_offsets[queue] = queue_offset + 1
        out.make_room(size)
        write_record(
            out, &send, stored, <int32_t>queue_id, queue_offset, position, sys_flag & ~(BORN_HOST_V6 | STORE_HOST_V6) | host_bits,
            stored_ms, born_host, store_host, body, text, properties_bytes, more, marked_key, unique_bytes
        )
        place = position
        dispatches.append((stored.topic, queue, offset, place, size, entry, timestamp, prepend(unique_key, keys), sys_flag))
        if handle is None:
            answers.append((sent_queue, key_bytes, place, offset, send.opaque))
        else:
            answers.append((sent_queue, key_bytes, place, handle, offset, send.opaque))
        position += size
        number += 1
    batch.position = position
    return number


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
