# cython: language_level=3, boundscheck=False, wraparound=False
"""The twins of `protocol/oneway_end.py` and of the loop in `broker/end_transaction.py`: how transactions end.

A header that `end_header.h` cannot read goes to the reference.
"""

from cpython.bytes cimport PyBytes_AsString, PyBytes_Size
from cpython.unicode cimport PyUnicode_DecodeASCII
from libc.stdint cimport int32_t, int64_t

cdef extern from "end_header.h" nogil:
    ctypedef struct Text:
        const unsigned char *at
        size_t size

    ctypedef struct End:
        Text group
        int64_t place
        int64_t queue_offset
        int32_t outcome
        bint is_answer

    bint read_end(const unsigned char *header, size_t size, End *end)

cdef enum:
    COMMIT = 8
    ROLLBACK = 12

cdef object reference = None  # imported when it is first needed: its module imports this one


def decode_oneway_end(header_bytes):
    global reference
    cdef End end
    if read_end(<const unsigned char *>PyBytes_AsString(header_bytes), PyBytes_Size(header_bytes), &end):
        group = PyUnicode_DecodeASCII(<char *>end.group.at, end.group.size, NULL)
        return end.place, end.queue_offset, end.outcome, group, end.is_answer
    if reference is None:
        from skyrocket.protocol.oneway_end import _decode_oneway_end as reference
    return reference(header_bytes)


def plain_ends(ends, halves, dict known):
    cdef list found = []
    cdef int64_t outcome
    cdef object half, facts
    if len(ends) != len(halves):
        raise ValueError("each end has its half message, or None")
    for end, half in zip(ends, halves):
        _, said_offset, how, said_group, _ = <tuple>end
        outcome = how
        facts = None if half is None or (outcome != COMMIT and outcome != ROLLBACK) else known.get((<tuple>half)[1])
        if facts is None:
            return None
        record, _, key, offset, _, _, _ = <tuple>half
        group, immunity, address = <tuple>facts
        if group != said_group or offset != said_offset or immunity or address is None:
            return None
        found.append((offset, (record, address, key, b"") if outcome == COMMIT else None))
    return found
