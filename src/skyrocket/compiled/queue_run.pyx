# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Twins of `store/read/queue_run.py` and `broker/pull/frames.py`: check the records of a run of queue entries, and copy them.

The records of a run lie one behind the other in one buffer. Frames of recently written records are copied only when somebody needs
their bytes: `write_pieces`, the twin of `net/gathered_write.py`, hands the records to the socket where they lie in the log.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AsString, PyBytes_FromStringAndSize
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp, memcpy, memset

include "source_digest.pxi"
include "record_layout.pxi"

cdef extern from "numbers.h" nogil:
    uint32_t get32(const unsigned char *at)
    uint64_t get64(const unsigned char *at)
    void put32(unsigned char *at, uint32_t value)
    unsigned char *put_decimal(unsigned char *at, int64_t value)
    int decimal_bytes(int64_t value)

cdef extern from "crc32.h" nogil:
    uint32_t crc32_of(const unsigned char *data, size_t size)

cdef enum:
    ENTRY_BYTES = 20
    PLACED_BYTES = SYS_FLAG_AT  # of a record, up to the end of its physical offset
    CHECKSUM_BYTES = 8
    CHECKSUMS_MAX = 16384
    PREFIX_BYTES = 8  # of a frame
    RECORDS_PER_READ_MAX = 1024
    VECTORS_MAX = 1024  # of one call: the kernel's IOV_MAX

cdef extern from "sys/socket.h" nogil:
    cdef struct iovec:
        void *iov_base
        size_t iov_len

    cdef struct msghdr:
        iovec *msg_iov
        size_t msg_iovlen

    ssize_t sendmsg(int descriptor, const msghdr *message, int flags)
    int MSG_DONTWAIT
    int MSG_NOSIGNAL


cdef struct Range:
    int64_t at
    int64_t size


cdef class _Cold:
    """Checks records that this process has not written recently: checksum, topic and queue."""

    cdef object checksums
    cdef str topic
    cdef bytes topic_bytes  # as they lie in a record
    cdef int32_t queue_id
    cdef int64_t start  # of the segment
    cdef int64_t known_from  # `known` has the records that end from here to `known_to` in the segment
    cdef int64_t known_to
    cdef bytes known  # checksums with their ends, packed
    cdef Py_ssize_t next_known  # index of the entry to compare first

    cdef bint is_sound(self, const unsigned char *record, int64_t size, int64_t stop, int64_t last_stop) except -1:
        """Whether a record is what was written. This record ends at `stop` in the segment, the last one of the run at `last_stop`."""
        if not self.known_from <= stop <= self.known_to:
            self.known_from, self.known_to = stop, max(stop, last_stop)
            self.known = self.checksums.entries_between(self.start, stop, self.known_to, CHECKSUMS_MAX)
        return self.is_known(stop, crc32_of(record, size)) and self.is_of(record, size)

    cdef bint is_known(self, int64_t stop, uint32_t crc) except -1:
        """Whether the record that ends at `stop` has this checksum. The search starts behind the last match."""
        cdef const unsigned char *entries = <unsigned char *>PyBytes_AsString(self.known)
        cdef Py_ssize_t count = len(self.known) // CHECKSUM_BYTES, looked_at
        for looked_at in range(count):
            self.next_known = 0 if self.next_known >= count else self.next_known
            if <int64_t>get32(entries + self.next_known * CHECKSUM_BYTES) == stop:
                return get32(entries + self.next_known * CHECKSUM_BYTES + 4) == crc
            self.next_known += 1
        return False

    cdef bint is_of(self, const unsigned char *record, int64_t size) except -1:
        """Whether a sound record belongs to this queue. Also False for records with a long topic or IPv6 hosts, which are rare."""
        cdef int64_t topic_at
        if size < BODY_AT or get32(record + MAGIC_AT) != MAGIC or <int32_t>get32(record + QUEUE_ID_AT) != self.queue_id:
            return False
        if get32(record + SYS_FLAG_AT) & HOST_BITS:
            return False
        if self.topic_bytes is None:
            name = self.topic.encode()
            if len(name) > TOPIC_BYTES_MAX:
                return False
            self.topic_bytes = bytes((len(name),)) + name
        topic_at = BODY_AT + <int32_t>get32(record + BODY_LENGTH_AT)
        if topic_at < BODY_AT or topic_at + len(self.topic_bytes) > size:
            return False
        return memcmp(record + topic_at, PyBytes_AsString(self.topic_bytes), len(self.topic_bytes)) == 0


cdef class _Reader:
    """Reads runs of queue entries whose records lie in one segment."""

    cdef _Cold cold
    cdef object segment
    cdef int64_t base  # log offset of the first byte of `segment`
    cdef Py_buffer view
    cdef bint is_held
    cdef bytes packed
    cdef Py_ssize_t count  # of entries
    cdef int64_t first_offset, records_max, bytes_max, hot_from
    cdef object codes
    cdef bint takes_all, takes_one
    cdef int64_t the_one
    cdef Range *ranges  # of the records in the result
    cdef Py_ssize_t taken
    cdef int64_t size_bytes, last_place  # of the records in the result
    cdef int64_t next_offset  # queue offset to continue at

    def __init__(self, log, checksums, int64_t hot_from, bytes packed, wanted, bint every):
        """With `every`, the records of all entries are needed: they are for several pulls."""
        cdef Py_ssize_t needed
        self.packed, self.count, self.hot_from = packed, len(packed) // ENTRY_BYTES, hot_from
        self.cold = _Cold()
        self.cold.topic, self.cold.queue_id, self.first_offset, self.records_max, self.bytes_max, self.codes = <tuple>wanted
        self.takes_all, self.takes_one = self.codes is None, self.codes is not None and len(self.codes) == 1
        self.the_one = next(iter(self.codes)) if self.takes_one else 0
        needed = self.count if self.codes is not None or every else min(self.count, max(1, self.records_max))
        self.cold.start, self.base, self.segment = log.run_view(<int64_t>get64(self.entry(0)), self.last_end(needed))
        self.cold.checksums, self.cold.topic_bytes, self.cold.known_from, self.cold.known_to = checksums, None, 1, 0
        if self.cold.start < 0 or self.base < self.cold.start:
            raise ValueError(f"a segment starts at {self.cold.start}, and its bytes at {self.base}")
        PyObject_GetBuffer(self.segment, &self.view, PyBUF_SIMPLE)
        self.is_held = True

    def __dealloc__(self):
        free(self.ranges)
        if self.is_held:
            PyBuffer_Release(&self.view)

    cdef int make_room(self, Py_ssize_t count) except -1:
        """Allocate the ranges of this many records."""
        self.ranges = <Range *>malloc(max(1, count) * sizeof(Range))
        if self.ranges == NULL:
            raise MemoryError
        return 0

    cdef const unsigned char *entry(self, Py_ssize_t number):
        return <unsigned char *>PyBytes_AsString(self.packed) + number * ENTRY_BYTES

    cdef bint contains(self, int64_t place):
        """Whether a log offset lies in the bytes of the segment. An entry may hold any number, so nothing is added to it."""
        return place >= self.base and place - self.base < self.view.len

    cdef int64_t last_end(self, Py_ssize_t needed):
        """Return where the last of the records of `needed` entries may end in the log."""
        cdef Py_ssize_t number
        cdef int64_t place, size, last = 0
        for number in range(needed):
            place, size = <int64_t>get64(self.entry(number)), <int32_t>get32(self.entry(number) + 8)
            last = max(last, INT64_MAX if size > 0 and place > INT64_MAX - size else place + max(size, 0))
        return last

    cdef Py_ssize_t number_of(self, int64_t offset):
        """Return the number of the entry for a queue offset; -1 for one before the first, and the count for one behind the last."""
        if offset < self.first_offset:
            return -1
        return self.count if offset - self.first_offset > self.count else offset - self.first_offset

    cdef int64_t stop_of(self, Py_ssize_t number):
        """Return where the record of entry `number` ends in the segment; of the last entry, if there are fewer.

        For an entry that points elsewhere, return the end of the segment it lies behind, or 0.
        """
        cdef const unsigned char *entry = self.entry(min(number, self.count - 1))
        cdef int64_t place = <int64_t>get64(entry)
        if self.contains(place):
            return place - self.cold.start + <int32_t>get32(entry + 8)
        return 0 if place < self.base else self.base - self.cold.start + self.view.len

    cdef bint read(self, Py_ssize_t first, Py_ssize_t entries_max, int64_t records_max, Py_ssize_t last) except -1:
        """Read the run of entries from `first` on. Return False when the general path must read it.

        Checksums are fetched for the whole run, and up to entry `last`.
        """
        cdef const unsigned char *segment = <const unsigned char *>self.view.buf
        cdef const unsigned char *entry = self.entry(first)
        cdef int64_t offset = self.first_offset + first, bytes_max = self.bytes_max, place, code, at, size, stop
        cdef Py_ssize_t number, before = self.taken
        for number in range(first, min(self.count, first + entries_max)):
            place, size, code = <int64_t>get64(entry), <int32_t>get32(entry + 8), <int64_t>get64(entry + 12)
            entry += ENTRY_BYTES
            if self.takes_all or (code == self.the_one if self.takes_one else code in self.codes):
                bytes_max -= size
                if self.taken - before >= records_max or (bytes_max < 0 and self.taken > before):
                    break
                if not self.contains(place) or size < PLACED_BYTES:
                    return False
                at = place - self.base
                if size > self.view.len - at:
                    return False
                stop = place - self.cold.start + size
                if <int32_t>get32(segment + at) != size or <int64_t>get64(segment + at + QUEUE_OFFSET_AT) != offset:
                    return False
                if <int64_t>get64(segment + at + PHYSICAL_OFFSET_AT) != place:
                    return False
                if place < self.hot_from and not self.cold.is_sound(
                    segment + at, size, stop, self.stop_of(max(last, min(number + records_max, first + entries_max) - 1))
                ):
                    return False
                self.ranges[self.taken].at, self.ranges[self.taken].size = at, size
                self.taken += 1
                self.size_bytes += size
                self.last_place = place
            offset += 1
        self.next_offset = offset
        return True

    cdef bint read_again(
        self, Py_ssize_t first, Py_ssize_t entries_max, int64_t records_max, Py_ssize_t taken, int64_t size_bytes
    ) except -1:
        """Discard what was read beyond `taken` records, and read a run with its own checksums only.

        Fetching checksums for several runs fails when too many records of other queues, or a damaged one, lie in between.
        """
        self.taken, self.size_bytes, self.cold.known_from, self.cold.known_to = taken, size_bytes, 1, 0
        return self.read(first, entries_max, records_max, 0)

    cdef unsigned char *copy(self, unsigned char *out, Py_ssize_t first, Py_ssize_t stop) noexcept:
        """Copy the records of these ranges. Return where they end."""
        cdef Py_ssize_t number
        for number in range(first, stop):
            memcpy(out, <const unsigned char *>self.view.buf + self.ranges[number].at, self.ranges[number].size)
            out += self.ranges[number].size
        return out


def read_pull_run(log, checksums, int64_t hot_from, bytes packed, wanted):
    cdef _Reader reader
    cdef bytes data
    if len(packed) < ENTRY_BYTES:
        return None
    reader = _Reader(log, checksums, hot_from, packed, wanted, False)
    reader.make_room(reader.count)
    if not reader.read(0, reader.count, reader.records_max, 0):
        return None
    data = PyBytes_FromStringAndSize(NULL, reader.size_bytes)
    reader.copy(<unsigned char *>PyBytes_AsString(data), 0, reader.taken)
    return [data], reader.taken, reader.size_bytes, reader.next_offset, reader.last_place


# --- several pulls at once


cdef struct Answer:
    int64_t opaque
    int64_t next_offset
    int64_t size_bytes
    Py_ssize_t header_bytes  # with the prefix
    Py_ssize_t stop  # index behind its last range


cdef inline unsigned char *put(unsigned char *out, bytes text):
    memcpy(out, PyBytes_AsString(text), len(text))
    return out + len(text)


cdef class FramedRecords:
    """Frames whose records still lie in the log's mapping. Its buffer has their bytes, and copies the records when it is asked for."""

    cdef _Reader reader
    cdef bytes headers  # all of them, one behind the other
    cdef Answer *answers
    cdef Py_ssize_t count  # of answers
    cdef Py_ssize_t size
    cdef bytes joined  # None before somebody needs it

    def __dealloc__(self):
        free(self.answers)

    def __len__(self):
        return self.size

    def __getbuffer__(self, Py_buffer *buffer, int flags):
        self.join()
        PyBuffer_FillInfo(buffer, self, PyBytes_AsString(self.joined), self.size, 1, flags)

    def __releasebuffer__(self, Py_buffer *buffer):
        pass

    cdef int join(self) except -1:
        cdef const unsigned char *header
        cdef unsigned char *out
        cdef Py_ssize_t number, taken = 0
        if self.joined is not None:
            return 0
        self.joined = PyBytes_FromStringAndSize(NULL, self.size)
        header, out = <unsigned char *>PyBytes_AsString(self.headers), <unsigned char *>PyBytes_AsString(self.joined)
        for number in range(self.count):
            memcpy(out, header, self.answers[number].header_bytes)
            header += self.answers[number].header_bytes
            out = self.reader.copy(out + self.answers[number].header_bytes, taken, self.answers[number].stop)
            taken = self.answers[number].stop
        return 0

    cdef Py_ssize_t vectors_max(self) noexcept:
        return self.count + self.reader.taken

    cdef iovec *fill(self, iovec *at) noexcept:
        """Write the places of headers and records. Records that lie side by side are one place. Return where the places end."""
        cdef char *header = PyBytes_AsString(self.headers)
        cdef char *place
        cdef Py_ssize_t number, record, taken = 0
        for number in range(self.count):
            at.iov_base, at.iov_len = header, self.answers[number].header_bytes
            header += self.answers[number].header_bytes
            for record in range(taken, self.answers[number].stop):
                place = <char *>self.reader.view.buf + self.reader.ranges[record].at
                if record > taken and <char *>at.iov_base + at.iov_len == place:
                    at.iov_len += self.reader.ranges[record].size
                else:
                    at += 1
                    at.iov_base, at.iov_len = place, self.reader.ranges[record].size
            at += 1
            taken = self.answers[number].stop
        return at


cdef FramedRecords framed(_Reader reader, Answer *answers, Py_ssize_t count, words):
    """Build the headers. The result takes over `answers`."""
    cdef FramedRecords frames = FramedRecords()
    cdef bytes before, between, behind
    cdef unsigned char *header
    cdef unsigned char *out
    cdef Py_ssize_t number, size
    frames.answers, frames.count, frames.reader = answers, count, reader
    before, between, behind = <tuple>words
    size = count * (PREFIX_BYTES + len(before) + len(between) + len(behind))
    for number in range(count):
        size += decimal_bytes(answers[number].next_offset) + decimal_bytes(answers[number].opaque)
    frames.headers, frames.size = PyBytes_FromStringAndSize(NULL, size), size + reader.size_bytes
    out = <unsigned char *>PyBytes_AsString(frames.headers)
    for number in range(count):
        header = out + PREFIX_BYTES
        out = put_decimal(put(header, before), answers[number].next_offset)
        out = put(put_decimal(put(out, between), answers[number].opaque), behind)
        put32(header - 8, <uint32_t>(4 + (out - header) + answers[number].size_bytes))
        put32(header - 4, <uint32_t>(out - header))
        answers[number].header_bytes = PREFIX_BYTES + (out - header)
    return frames


def write_pieces(int descriptor, list pieces):
    cdef Py_ssize_t count = 0, written = 0, got
    cdef size_t wanted
    cdef iovec *vectors
    cdef iovec *at
    cdef iovec *end
    cdef iovec *behind
    cdef msghdr message
    cdef list kept = []  # pieces whose bytes the kernel reads
    for piece in pieces:
        if type(piece) is FramedRecords and (<FramedRecords>piece).joined is None:
            count += (<FramedRecords>piece).vectors_max()
        else:
            count += 1
    vectors = <iovec *>malloc(max(1, count) * sizeof(iovec))
    if vectors == NULL:
        raise MemoryError
    try:
        end = vectors
        for piece in pieces:
            if type(piece) is FramedRecords and (<FramedRecords>piece).joined is None:
                end = (<FramedRecords>piece).fill(end)
                continue
            if type(piece) is not bytes:
                piece = bytes(piece)
                kept.append(piece)
            end.iov_base, end.iov_len = PyBytes_AsString(piece), len(piece)
            end += 1
        memset(&message, 0, sizeof(message))
        at = vectors
        while at < end:
            message.msg_iov, message.msg_iovlen = at, min(<size_t>(end - at), <size_t>VECTORS_MAX)
            behind, wanted = at + message.msg_iovlen, 0
            while at < behind:
                wanted += at.iov_len
                at += 1
            got = sendmsg(descriptor, &message, MSG_DONTWAIT | MSG_NOSIGNAL)
            if got < 0:
                break
            written += got
            if <size_t>got < wanted:
                break
        return written
    finally:
        free(vectors)


cdef inline bint ends_early(
    int64_t found, int64_t next_offset, int64_t offset, int64_t entries, int64_t records_max, int64_t max_offset
) noexcept nogil:
    """`ends_early` of `store/read/queue_run.py`."""
    return next_offset == offset + entries and found < records_max and next_offset < max_offset


def frame_runs(log, checksums, int64_t hot_from, bytes packed, wanted, asks, words, int64_t max_offset, int64_t bytes_max):
    cdef _Reader reader
    cdef Answer *answers
    cdef Py_ssize_t answered = 0, first, entries, last = 0, before, room = 0
    cdef int64_t opaque, offset, count, size_before, last_place
    cdef bint is_run, is_short, is_hot
    cdef FramedRecords frames
    if len(packed) < ENTRY_BYTES or not asks:
        return [], 0, 0, 0, 0
    reader = _Reader(log, checksums, hot_from, packed, wanted, True)
    is_hot = <int64_t>get64(reader.entry(0)) >= hot_from
    for _, offset, count, _ in asks:
        count = max(1, min(count, reader.records_max))
        room += min(count, reader.count)
        first = reader.number_of(offset)
        last = max(last, (0 if first < 0 else first) + count - 1)
    reader.make_room(room)
    answers = <Answer *>malloc(len(asks) * sizeof(Answer))
    if answers == NULL:
        raise MemoryError
    try:
        for opaque, offset, count, _ in asks:
            if reader.size_bytes >= bytes_max:
                break
            count = max(1, min(count, reader.records_max))
            first, before, size_before = reader.number_of(offset), reader.taken, reader.size_bytes
            if not 0 <= first < reader.count or not reader.contains(<int64_t>get64(reader.entry(first))):
                break
            entries = min(2 * count, RECORDS_PER_READ_MAX, reader.count - first)
            last_place = reader.last_place
            is_run = reader.read(first, entries, count, last) or reader.read_again(first, entries, count, before, size_before)
            is_short = ends_early(reader.taken - before, reader.next_offset, offset, entries, count, max_offset)
            if not is_run or reader.taken == before or is_short:
                reader.taken, reader.size_bytes, reader.last_place = before, size_before, last_place
                break
            answers[answered].opaque, answers[answered].next_offset = opaque, reader.next_offset
            answers[answered].size_bytes, answers[answered].stop = reader.size_bytes - size_before, reader.taken
            answered += 1
        if not answered:
            return [], 0, 0, 0, 0
        frames = framed(reader, answers, answered, words)
        answers = NULL  # they are the frames' now
        if not is_hot:  # the bytes lie in a window, which is used again
            frames.join()
            return [frames.joined], answered, reader.taken, reader.size_bytes, reader.last_place
        return [frames], answered, reader.taken, reader.size_bytes, reader.last_place
    finally:
        free(answers)
