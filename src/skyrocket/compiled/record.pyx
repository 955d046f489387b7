# cython: language_level=3, boundscheck=False, wraparound=False
"""Twin of `protocol/message/record.py`: checks neighbouring records of one topic and splits them into their parts."""

from cpython.bytes cimport PyBytes_AsString, PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.string cimport memcmp

include "source_digest.pxi"
include "record_layout.pxi"

cdef extern from "numbers.h" nogil:
    unsigned short get16(const unsigned char *at)
    uint32_t get32(const unsigned char *at)
    unsigned long long get64(const unsigned char *at)

cdef extern from "crc32.h" nogil:
    uint32_t crc32_of(const unsigned char *data, size_t size)


def split_same_topic(bytes data, Py_ssize_t at, int32_t magic, bytes topic, list found):
    cdef const unsigned char *record
    cdef const unsigned char *start = <unsigned char *>PyBytes_AsString(data)
    cdef const unsigned char *topic_at = <unsigned char *>PyBytes_AsString(topic)
    cdef Py_ssize_t available = len(data) - at, topic_bytes = len(topic)
    cdef int64_t size, fixed, body_bytes, tail_bytes
    cdef unsigned char kinds
    if at < 0:
        raise ValueError(f"there is no byte {at}")
    while available >= BODY_AT:
        record = start + at
        kinds = record[SYS_FLAG_LAST_AT]
        fixed = BODY_AT + (V6_MORE_BYTES if kinds & BORN_HOST_V6 else 0) + (V6_MORE_BYTES if kinds & STORE_HOST_V6 else 0)
        if fixed > available or <int32_t>get32(record + MAGIC_AT) != magic:
            break
        size, body_bytes = <int32_t>get32(record), <int32_t>get32(record + fixed - BODY_LENGTH_BYTES)
        tail_bytes = size - fixed - body_bytes
        if size > available or body_bytes < 0 or tail_bytes < topic_bytes + PROPERTIES_LENGTH_BYTES:
            break
        if memcmp(record + fixed + body_bytes, topic_at, topic_bytes) != 0:
            break
        if get16(record + fixed + body_bytes + topic_bytes) != tail_bytes - topic_bytes - PROPERTIES_LENGTH_BYTES:
            break
        if crc32_of(record + fixed, body_bytes) & 0x7FFFFFFF != get32(record + CRC_AT):
            break
        found.append((
            <int64_t>get64(record + QUEUE_OFFSET_AT),
            kinds & COMPRESSED != 0,
            PyBytes_FromStringAndSize(<char *>record, fixed),
            PyBytes_FromStringAndSize(<char *>record + fixed, body_bytes),
            PyBytes_FromStringAndSize(<char *>record + fixed + body_bytes, tail_bytes),
        ))
        at += size
        available -= size
    return at
