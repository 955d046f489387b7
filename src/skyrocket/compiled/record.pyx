# cython: language_level=3, boundscheck=False, wraparound=False
"""Twin of `protocol/message/record.py` and `client/received.py`: checks neighbouring records of one topic, and splits them into their
parts or makes messages of them."""

from cpython.bytes cimport PyBytes_AsString, PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.string cimport memcmp, memcpy

from cpython.ref cimport Py_INCREF

include "source_digest.pxi"
include "record_layout.pxi"
include "slots.pxi"

cdef extern from "numbers.h" nogil:
    unsigned short get16(const unsigned char *at)
    uint32_t get32(const unsigned char *at)
    unsigned long long get64(const unsigned char *at)

cdef extern from "Python.h":
    object PyType_GenericAlloc(PyTypeObject *of, Py_ssize_t items)
    void PyObject_GC_UnTrack(PyObject *one)

cdef extern from "crc32.h" nogil:
    uint32_t crc32_of(const unsigned char *data, size_t size)


cdef struct Parts:
    int64_t size  # of the whole record
    int64_t fixed  # bytes before the body
    int64_t body_bytes
    int64_t tail_bytes  # behind the body: topic and properties


cdef bint find_parts(
    const unsigned char *record, int64_t available, int32_t magic, const unsigned char *topic, Py_ssize_t topic_bytes, Parts *parts
) noexcept nogil:
    """Whether a valid record of this magic and topic is here, and where its parts are."""
    cdef unsigned char kinds
    if available < BODY_AT:
        return False
    kinds = record[SYS_FLAG_LAST_AT]
    parts.fixed = BODY_AT + (V6_MORE_BYTES if kinds & BORN_HOST_V6 else 0) + (V6_MORE_BYTES if kinds & STORE_HOST_V6 else 0)
    if parts.fixed > available or <int32_t>get32(record + MAGIC_AT) != magic:
        return False
    parts.size = <int32_t>get32(record)
    parts.body_bytes = <int32_t>get32(record + parts.fixed - BODY_LENGTH_BYTES)
    parts.tail_bytes = parts.size - parts.fixed - parts.body_bytes
    if parts.size > available or parts.body_bytes < 0 or parts.tail_bytes < topic_bytes + PROPERTIES_LENGTH_BYTES:
        return False
    record += parts.fixed + parts.body_bytes
    if memcmp(record, topic, topic_bytes) != 0:
        return False
    if get16(record + topic_bytes) != parts.tail_bytes - topic_bytes - PROPERTIES_LENGTH_BYTES:
        return False
    record -= parts.body_bytes
    return crc32_of(record, parts.body_bytes) & 0x7FFFFFFF == get32(record - parts.fixed + CRC_AT)


def split_same_topic(bytes data, Py_ssize_t at, int32_t magic, bytes topic, list found):
    cdef const unsigned char *record
    cdef const unsigned char *start = <unsigned char *>PyBytes_AsString(data)
    cdef const unsigned char *topic_at = <unsigned char *>PyBytes_AsString(topic)
    cdef Parts parts
    if at < 0:
        raise ValueError(f"there is no byte {at}")
    while find_parts(start + at, len(data) - at, magic, topic_at, len(topic), &parts):
        record = start + at
        found.append((
            <int64_t>get64(record + QUEUE_OFFSET_AT),
            record[SYS_FLAG_LAST_AT] & COMPRESSED != 0,
            PyBytes_FromStringAndSize(<char *>record, parts.fixed),
            PyBytes_FromStringAndSize(<char *>record + parts.fixed, parts.body_bytes),
            PyBytes_FromStringAndSize(<char *>record + parts.fixed + parts.body_bytes, parts.tail_bytes),
        ))
        at += parts.size
    return at


cdef enum:  # the slots of a pulled message
    BODY = 0
    STORED_BODY = 1
    REST = 2
    QUEUE_OFFSET = 3
    SIZE_BYTES = 4
    BROKER_NAME = 5
    TOPIC = 6
    ARRIVAL = 7
    RECORD = 8
    PROPERTIES = 9
    SLOTS = 10

cdef tuple NAMES = (
    "_body", "_stored_body", "_rest", "queue_offset", "size_bytes", "broker_name", "topic", "_arrival", "_record", "_properties",
)
cdef object PulledMessage = None  # imported on first use: its module imports this one
cdef object CompressedMessage = None
cdef Py_ssize_t slots[SLOTS]


cdef prepare():
    global PulledMessage, CompressedMessage
    cdef Py_ssize_t number
    from skyrocket.client.received import CompressedMessage as compressed_kind, PulledMessage as kind

    for number in range(SLOTS):
        slots[number] = slot_of(kind, NAMES[number])
        assert slots[number] >= 0, f"PulledMessage has no slot {NAMES[number]}"
    assert compressed_kind.__basicsize__ == kind.__basicsize__, "their slots are in the same places"
    CompressedMessage, PulledMessage = compressed_kind, kind


cdef inline void fill(object message, Py_ssize_t slot, object value) noexcept:
    """Set a slot of a new object, in which nothing is yet."""
    Py_INCREF(value)
    (<PyObject **>(<char *><PyObject *>message + slots[slot]))[0] = <PyObject *>value


def split_pulled(bytes data, Py_ssize_t at, int32_t magic, bytes topic, tuple shared, list found):
    cdef const unsigned char *record
    cdef const unsigned char *start = <unsigned char *>PyBytes_AsString(data)
    cdef const unsigned char *topic_at = <unsigned char *>PyBytes_AsString(topic)
    cdef Parts parts
    cdef object message, body, broker_name, topic_name, arrival
    cdef bytes rest
    if at < 0:
        raise ValueError(f"there is no byte {at}")
    if PulledMessage is None:
        prepare()
    broker_name, topic_name, arrival = shared
    while find_parts(start + at, len(data) - at, magic, topic_at, len(topic), &parts):
        record = start + at
        body = PyBytes_FromStringAndSize(<char *>record + parts.fixed, parts.body_bytes)
        rest = PyBytes_FromStringAndSize(NULL, parts.fixed + parts.tail_bytes)
        memcpy(PyBytes_AsString(rest), record, parts.fixed)
        memcpy(PyBytes_AsString(rest) + parts.fixed, record + parts.fixed + parts.body_bytes, parts.tail_bytes)
        message = PyType_GenericAlloc(
            <PyTypeObject *>(CompressedMessage if record[SYS_FLAG_LAST_AT] & COMPRESSED else PulledMessage), 0
        )
        PyObject_GC_UnTrack(<PyObject *>message)  # it refers to nothing that refers to it: the collector need not visit it
        fill(message, BODY, None)
        fill(message, STORED_BODY, body)
        fill(message, REST, rest)
        fill(message, QUEUE_OFFSET, <int64_t>get64(record + QUEUE_OFFSET_AT))
        fill(message, SIZE_BYTES, parts.body_bytes)
        fill(message, BROKER_NAME, broker_name)
        fill(message, TOPIC, topic_name)
        fill(message, ARRIVAL, arrival)
        fill(message, RECORD, None)
        fill(message, PROPERTIES, None)
        found.append(message)
        at += parts.size
    return at
