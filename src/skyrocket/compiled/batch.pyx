# cython: language_level=3, boundscheck=False, wraparound=False
"""Twin of `protocol/message/batch.py`: packs messages into the body of one send request."""

from cpython.bytes cimport PyBytes_AsString, PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.string cimport memcpy, memset

include "record_layout.pxi"
include "source_digest.pxi"
include "slots.pxi"

cdef extern from "numbers.h" nogil:
    void put16(unsigned char *at, unsigned short value)
    void put32(unsigned char *at, uint32_t value)

cdef extern from "Python.h":
    const char *PyUnicode_AsUTF8AndSize(object text, Py_ssize_t *size) except NULL

cdef enum:
    FIXED_BYTES = 20  # size, magic, CRC, flag, length of the body
    ID_NAME_BYTES = 9

cdef char *ID_NAME = b"UNIQ_KEY\x01"


cdef class MessageReader:
    """Reads the two fields of a message that a batch needs. Nearly always all messages are of one class, which has slots."""

    cdef object kind
    cdef Py_ssize_t body_at, flag_at

    def __init__(self, kind):
        self.kind, self.body_at, self.flag_at = kind, slot_of(kind, "body"), slot_of(kind, "flag")

    cdef object body(self, object message):
        cdef PyObject *found = slot_value(message, self.body_at) if type(message) is self.kind and self.body_at >= 0 else NULL
        return message.body if found is NULL else <object>found

    cdef object flag(self, object message):
        cdef PyObject *found = slot_value(message, self.flag_at) if type(message) is self.kind and self.flag_at >= 0 else NULL
        return message.flag if found is NULL else <object>found


def pack_messages(list messages, list properties, list ids, int64_t limit):
    """Return None if something does not fit: the reference then raises the error."""
    cdef Py_ssize_t count = len(messages), number, id_bytes, own_bytes
    cdef int64_t total = 0, properties_bytes, flag
    cdef bytes body, packed
    cdef object message
    cdef unsigned char *out
    cdef const char *text
    cdef MessageReader reader
    if count == 0 or len(properties) != count or len(ids) != count:
        return None
    reader = MessageReader(type(messages[0]))
    for number in range(count):
        message = messages[number]
        body = reader.body(message)
        flag = reader.flag(message)
        PyUnicode_AsUTF8AndSize(ids[number], &id_bytes)
        PyUnicode_AsUTF8AndSize(properties[number], &own_bytes)
        properties_bytes = ID_NAME_BYTES + id_bytes + 1 + own_bytes
        if body is None or properties_bytes > PROPERTIES_BYTES_MAX or not -0x80000000 <= flag <= 0x7FFFFFFF:
            return None
        total += FIXED_BYTES + PROPERTIES_LENGTH_BYTES + len(body) + properties_bytes
    if total > limit:
        return None
    packed = PyBytes_FromStringAndSize(NULL, total)
    out = <unsigned char *>PyBytes_AsString(packed)
    for number in range(count):
        message = messages[number]
        body = reader.body(message)
        flag = reader.flag(message)
        text = PyUnicode_AsUTF8AndSize(ids[number], &id_bytes)
        PyUnicode_AsUTF8AndSize(properties[number], &own_bytes)
        properties_bytes = ID_NAME_BYTES + id_bytes + 1 + own_bytes
        total -= FIXED_BYTES + PROPERTIES_LENGTH_BYTES + len(body) + properties_bytes
        if total < 0:
            return None  # a message changed since the first loop
        put32(out, <uint32_t>(FIXED_BYTES + PROPERTIES_LENGTH_BYTES + len(body) + properties_bytes))
        memset(out + 4, 0, 8)
        put32(out + 12, <uint32_t><int32_t>flag)
        put32(out + 16, <uint32_t>len(body))
        out += FIXED_BYTES
        memcpy(out, PyBytes_AsString(body), len(body))
        out += len(body)
        put16(out, <unsigned short>properties_bytes)
        memcpy(out + PROPERTIES_LENGTH_BYTES, ID_NAME, ID_NAME_BYTES)
        out += PROPERTIES_LENGTH_BYTES + ID_NAME_BYTES
        memcpy(out, text, id_bytes)
        out[id_bytes] = 2
        out += id_bytes + 1
        memcpy(out, PyUnicode_AsUTF8AndSize(properties[number], &own_bytes), own_bytes)
        out += own_bytes
    return [packed] if total == 0 else None
