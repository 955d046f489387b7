# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Twins of what a store and a broker derive from appended messages.

Checksums (`store/log/checksums.py`), consume queue entries (`store/queues/consume_queues.py`), hashed keys and entries of the index
(`store/index/index.py`, `store/index/index_file.py`), and counts by topic (`broker/load/counters.py`).
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AsString, PyBytes_FromStringAndSize
from cpython.unicode cimport PyUnicode_GET_LENGTH
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy

include "source_digest.pxi"
include "record_layout.pxi"

cdef extern from "numbers.h" nogil:
    void put32(unsigned char *at, uint32_t value)
    void put64(unsigned char *at, uint64_t value)
    uint32_t get32(const unsigned char *at)
    uint64_t get64(const unsigned char *at)

cdef extern from "crc32.h" nogil:
    uint32_t crc32_of(const unsigned char *data, size_t size)

cdef enum:
    CHECKSUM_BYTES = 8
    QUEUE_ENTRY_BYTES = 20
    INDEX_ENTRY_BYTES = 20
    INDEX_HEADER_BYTES = 40
    SLOT_BYTES = 4
    KEY_BYTES = 20  # of a packed key: hash, physical offset, store timestamp
    POINTED_BYTES = 12
    SIZE_PLACES = 7  # of SIZE_BOUNDS, and behind the last one


def pack_checksums(data, int64_t start, list bounds, int64_t segment_start, int64_t header_bytes=0):
    cdef Py_ssize_t count = len(bounds) - 1, number
    cdef int64_t at, end
    cdef Py_buffer view
    cdef bytes entries
    cdef unsigned char *out
    if count <= 0:
        return b""
    entries = PyBytes_FromStringAndSize(NULL, count * CHECKSUM_BYTES)
    out = <unsigned char *>PyBytes_AsString(entries)
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        for number in range(count):
            at = <int64_t>bounds[number] - start
            end = <int64_t>bounds[number + 1] - start - (header_bytes if number + 1 < count else 0)
            if not 0 <= at <= end <= view.len:
                raise ValueError(f"a record from {at} to {end} is not in {view.len} bytes")
            put32(out, <uint32_t>(start + end - segment_start))
            put32(out + 4, crc32_of(<unsigned char *>view.buf + at, end - at))
            out += CHECKSUM_BYTES
    finally:
        PyBuffer_Release(&view)
    return entries


def find_first_entry(view, int64_t count, int64_t end, int64_t hint):
    cdef Py_buffer buffer
    cdef const unsigned char *entries
    cdef int64_t low = 0, high = count, step = 1, middle
    PyObject_GetBuffer(view, &buffer, PyBUF_SIMPLE)
    try:
        entries = <unsigned char *>buffer.buf
        if not 0 <= count <= buffer.len // CHECKSUM_BYTES or hint < 0:
            raise ValueError(f"{count} checksums are not in {buffer.len} bytes")
        if hint < high and <int64_t>get32(entries + hint * CHECKSUM_BYTES) < end:
            low = hint + 1
            while low + step < high and <int64_t>get32(entries + (low + step) * CHECKSUM_BYTES) < end:
                low, step = low + step + 1, step * 2
            high = min(high, low + step + 1)
        while low < high:
            middle = (low + high) // 2
            if <int64_t>get32(entries + middle * CHECKSUM_BYTES) < end:
                low = middle + 1
            else:
                high = middle
        return low
    finally:
        PyBuffer_Release(&buffer)


cdef int64_t[6] SIZE_BOUNDS = [1024, 4096, 524288, 1048576, 2097152, 4194304]
NO_COUNTS = (0, 0, (0, 0, 0, 0, 0, 0, 0))


def put_by_topic(dispatches):
    cdef dict found = {}
    cdef object one, topic, before, topic_before = None
    cdef int64_t messages = 0, size_bytes = 0, size
    cdef int64_t sizes[SIZE_PLACES]
    cdef int place
    for one in dispatches:
        topic = (<tuple>one)[0]
        if topic is not topic_before:  # most messages have the topic of the one before
            if topic_before is not None:
                found[topic_before] = (messages, size_bytes, (sizes[0], sizes[1], sizes[2], sizes[3], sizes[4], sizes[5], sizes[6]))
            topic_before = topic
            messages, size_bytes, before = found.get(topic, NO_COUNTS)
            for place in range(SIZE_PLACES):
                sizes[place] = (<tuple>before)[place]
        size = (<tuple>one)[4]
        messages, size_bytes = messages + 1, size_bytes + size
        place = 0
        while place < SIZE_PLACES - 1 and size > SIZE_BOUNDS[place]:
            place += 1
        sizes[place] += 1
    if topic_before is not None:
        found[topic_before] = (messages, size_bytes, (sizes[0], sizes[1], sizes[2], sizes[3], sizes[4], sizes[5], sizes[6]))
    return found


# --- consume queues


def pack_queue_entries(dispatches):
    cdef Py_ssize_t most = len(dispatches), number = 0, run = -1, place
    cdef int64_t queue_offset, sys_flag
    cdef dict open_runs = {}
    cdef list keys = []
    cdef list packed = []
    cdef object key, found, one, topic, queue_id, topic_before = None, queue_before = None
    cdef tuple dispatch
    cdef bytes entries
    # For each message: its run and its entry. For each run: its first offset, its length, and how many bytes of it are copied.
    cdef Py_ssize_t *run_of = <Py_ssize_t *>malloc((most or 1) * (4 * sizeof(Py_ssize_t) + QUEUE_ENTRY_BYTES))
    if run_of == NULL:
        raise MemoryError
    cdef int64_t *first = <int64_t *>(run_of + most)
    cdef Py_ssize_t *count = run_of + 2 * most
    cdef Py_ssize_t *copied = run_of + 3 * most
    cdef unsigned char *entry = <unsigned char *>(run_of + 4 * most)
    try:
        for one in dispatches:
            dispatch = <tuple>one
            topic, queue_id, at, physical_offset, size, code, _, _, flags = dispatch
            sys_flag = flags
            if sys_flag and (sys_flag & TRANSACTION_MASK == TRANSACTION_PREPARED or sys_flag & TRANSACTION_MASK == TRANSACTION_ROLLBACK):
                continue
            queue_offset = at
            if topic is not topic_before or queue_id is not queue_before:  # most messages have the queue of the one before
                topic_before, queue_before, key = topic, queue_id, (topic, queue_id)
                found = open_runs.get(key)
                run = -1 if found is None else found
            if run < 0 or queue_offset != first[run] + count[run]:
                run = len(keys)
                open_runs[key] = run
                keys.append(key)
                first[run], count[run], copied[run] = queue_offset, 0, 0
            run_of[number] = run
            count[run] += 1
            put64(entry + number * QUEUE_ENTRY_BYTES, <uint64_t><int64_t>physical_offset)
            put32(entry + number * QUEUE_ENTRY_BYTES + 8, <uint32_t><int32_t>size)
            put64(entry + number * QUEUE_ENTRY_BYTES + 12, <uint64_t><int64_t>code)
            number += 1
        for run in range(len(keys)):
            packed.append(PyBytes_FromStringAndSize(NULL, count[run] * QUEUE_ENTRY_BYTES))
        for place in range(number):
            run = run_of[place]
            entries = packed[run]
            memcpy(PyBytes_AsString(entries) + copied[run], entry + place * QUEUE_ENTRY_BYTES, QUEUE_ENTRY_BYTES)
            copied[run] += QUEUE_ENTRY_BYTES
        return [(keys[run], first[run], packed[run]) for run in range(len(keys))]
    finally:
        free(run_of)


# --- the index


cdef extern from "java_hash.h" nogil:
    uint32_t hashed_on_ascii(uint32_t value, const unsigned char *text, size_t size)

cdef extern from "Python.h":
    bint PyUnicode_IS_ASCII(object text)
    const unsigned char *PyUnicode_1BYTE_DATA(object text)


cdef uint32_t hashed_on(uint32_t value, str text) except? 0:
    """Continue Java's String.hashCode over the UTF-16 units of a text."""
    cdef Py_UCS4 character
    cdef uint32_t code
    if text is None:
        raise TypeError("a topic or a key is no text")
    if PyUnicode_IS_ASCII(text):
        return hashed_on_ascii(value, PyUnicode_1BYTE_DATA(text), PyUnicode_GET_LENGTH(text))
    for character in text:
        code = <uint32_t>character
        if code > 0xFFFF:
            value = value * 31 + 0xD800 + ((code - 0x10000) >> 10)
            code = 0xDC00 + (code & 0x3FF)
        value = value * 31 + code
    return value


cdef inline size_t count_keys(dispatches) except? 0:
    """Count the keys of all messages."""
    cdef size_t count = 0
    for one in dispatches:
        count += len(<tuple>(<tuple>one)[7])
    return count


def pack_keys(dispatches, int64_t last):
    cdef bytes packed = PyBytes_FromStringAndSize(NULL, count_keys(dispatches) * KEY_BYTES)
    cdef unsigned char *start = <unsigned char *>PyBytes_AsString(packed)
    cdef unsigned char *out = start
    cdef str topic, topic_before = None
    cdef uint32_t topic_hash = 0, value
    cdef int64_t sys_flag, place, stored
    cdef tuple dispatch, keys
    cdef object one, key
    for one in dispatches:
        dispatch = <tuple>one
        topic, _, _, physical_offset, _, _, timestamp, keys, flags = dispatch
        sys_flag, place, stored = flags, physical_offset, timestamp
        if place <= last or sys_flag & TRANSACTION_MASK == TRANSACTION_ROLLBACK:
            continue
        if topic is not topic_before:
            topic_before, topic_hash = topic, hashed_on(0, topic) * 31 + 35  # "#"
        for key in keys:
            value = hashed_on(topic_hash, key)
            if value & 0x80000000:
                value = 0 if value == 0x80000000 else 0 - value
            put32(out, value)
            put64(out + 4, <uint64_t>place)
            put64(out + 12, <uint64_t>stored)
            out += KEY_BYTES
    return packed if out - start == len(packed) else packed[: out - start]


cdef struct Pointed:
    int64_t slot_at
    int32_t entry


cdef inline Pointed *find_pointed(Pointed *table, size_t room, int64_t slot_at) noexcept nogil:
    """Find a slot in a hash table of `room` places (a power of two, not full), or the free place for it, whose entry is 0."""
    cdef size_t at = (<uint64_t>slot_at * <uint64_t>0x9E3779B97F4A7C15 >> 32) & (room - 1)
    while table[at].entry and table[at].slot_at != slot_at:
        at = (at + 1) & (room - 1)
    return table + at


def pack_index_entries(table, int64_t slots, int64_t first, int64_t first_timestamp, bytes keys):
    cdef size_t count = len(keys) // KEY_BYTES, number, room = 16
    cdef uint64_t later_ms
    cdef bint is_later
    cdef int64_t hashed, store_timestamp, timestamp = first_timestamp, seconds = 0, slot_at, before, new_slots = 0
    cdef const unsigned char *key = <unsigned char *>PyBytes_AsString(keys)
    cdef bytes entries = PyBytes_FromStringAndSize(NULL, count * INDEX_ENTRY_BYTES)
    cdef unsigned char *out = <unsigned char *>PyBytes_AsString(entries)
    cdef Py_buffer view
    cdef Pointed *newest = NULL  # slot → its last new entry
    cdef Pointed *found
    cdef int64_t *order = NULL  # the slots in order of appearance
    cdef size_t used = 0
    if first < 1 or len(keys) % KEY_BYTES:
        raise ValueError("these are no keys, or they begin with no entry")
    while room < 2 * count:
        room *= 2
    PyObject_GetBuffer(table, &view, PyBUF_SIMPLE)
    try:
        newest = <Pointed *>calloc(room, sizeof(Pointed))
        order = <int64_t *>malloc((count or 1) * sizeof(int64_t))
        if newest == NULL or order == NULL:
            raise MemoryError
        for number in range(count):
            hashed, store_timestamp = <int32_t>get32(key), <int64_t>get64(key + 12)
            if store_timestamp != timestamp:
                timestamp = store_timestamp
                later_ms = <uint64_t>store_timestamp - <uint64_t>first_timestamp  # a header may hold any number
                is_later = store_timestamp >= first_timestamp and later_ms <= 1000 * <uint64_t>0x7FFFFFFF + 999
                seconds = <int64_t>(later_ms // 1000) if is_later else 0
            slot_at = INDEX_HEADER_BYTES + hashed % slots * SLOT_BYTES
            if hashed < 0 or slot_at + SLOT_BYTES > view.len:
                raise ValueError(f"a slot at {slot_at} is not in {view.len} bytes")
            found = find_pointed(newest, room, slot_at)
            before = found.entry
            if not before:
                order[used] = slot_at
                used += 1
                before = <int32_t>get32(<unsigned char *>view.buf + slot_at)
                if not 0 < before < first:
                    before = 0
                    new_slots += 1
            found.slot_at, found.entry = slot_at, <int32_t>(first + <int64_t>number)
            memcpy(out, key, 12)  # hash and physical offset
            put32(out + 12, <uint32_t>seconds)
            put32(out + 16, <uint32_t>before)
            out, key = out + INDEX_ENTRY_BYTES, key + KEY_BYTES
        return entries, pack_pointed(newest, room, order, used), new_slots
    finally:
        PyBuffer_Release(&view)
        free(newest)
        free(order)


cdef bytes pack_pointed(Pointed *newest, size_t room, int64_t *order, size_t count):
    """Pack the slot updates in order of appearance."""
    cdef bytes packed = PyBytes_FromStringAndSize(NULL, count * POINTED_BYTES)
    cdef unsigned char *out = <unsigned char *>PyBytes_AsString(packed)
    cdef size_t number
    for number in range(count):
        put64(out, <uint64_t>order[number])
        put32(out + 8, <uint32_t>find_pointed(newest, room, order[number]).entry)
        out += POINTED_BYTES
    return packed


def point_slots(table, bytes pointed):
    cdef const unsigned char *at = <unsigned char *>PyBytes_AsString(pointed)
    cdef const unsigned char *end = at + len(pointed) // POINTED_BYTES * POINTED_BYTES
    cdef Py_buffer view
    cdef int64_t slot_at
    PyObject_GetBuffer(table, &view, PyBUF_WRITABLE)
    try:
        while at < end:
            slot_at = <int64_t>get64(at)
            if not 0 <= slot_at <= view.len - SLOT_BYTES:
                raise ValueError(f"a slot at {slot_at} is not in {view.len} bytes")
            memcpy(<unsigned char *>view.buf + slot_at, at + 8, SLOT_BYTES)
            at += POINTED_BYTES
    finally:
        PyBuffer_Release(&view)


def fill_slots(slots, int64_t first, bytes entries):
    cdef const unsigned char *at = <unsigned char *>PyBytes_AsString(entries)
    cdef int64_t entry_count = len(entries) // INDEX_ENTRY_BYTES, number, count, used = 0, slot
    cdef unsigned char *table
    cdef Py_buffer view
    if len(entries) % INDEX_ENTRY_BYTES:
        raise ValueError("these are no entries of an index")
    PyObject_GetBuffer(slots, &view, PyBUF_WRITABLE)
    try:
        table, count = <unsigned char *>view.buf, view.len // SLOT_BYTES
        if count == 0 and entry_count:
            raise ZeroDivisionError("there are no slots")
        for number in range(first, first + entry_count):
            slot = <int32_t>get32(at) % count
            slot = (slot + count if slot < 0 else slot) * SLOT_BYTES
            used += get32(table + slot) == 0
            put32(table + slot, <uint32_t>number)
            at += INDEX_ENTRY_BYTES
    finally:
        PyBuffer_Release(&view)
    return used
