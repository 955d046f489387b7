# cython: language_level=3, boundscheck=False, wraparound=False
"""Twins of what `client/consumer/process_queue.py` does for every message: adds it, notes that a handler has it, removes it."""

include "source_digest.pxi"


def add_ascending(messages, next_offset, dict unfinished, offsets):
    cdef list several = messages if type(messages) is list else list(messages)
    cdef list added = []
    cdef object message, offset, least = next_offset
    cdef Py_ssize_t number
    cdef long long size = 0
    for message in several:
        offset = message.queue_offset
        if offset < least:
            return None
        added.append(offset)
        least = offset + 1
        size += message.size_bytes
    for number in range(len(added)):
        unfinished[added[number]] = several[number]
    offsets.extend(added)
    return size


def note_taken(list messages, now_ms, dict taken_ms):
    cdef object message
    for message in messages:
        taken_ms[message.queue_offset] = now_ms


def remove_finished(list messages, dict unfinished, dict taken_ms, offsets):
    cdef object message, offset, gone, popleft = offsets.popleft
    cdef long long size = 0
    for message in messages:
        offset = message.queue_offset
        gone = unfinished.pop(offset, None)
        taken_ms.pop(offset, None)
        if gone is not None:
            size += gone.size_bytes
    while offsets and offsets[0] not in unfinished:
        popleft()
    return size
