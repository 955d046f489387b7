# cython: language_level=3, boundscheck=False, wraparound=False
"""Twin of `protocol/frame.py`: splits a byte stream into frames."""

from cpython.bytes cimport PyBytes_AsString, PyBytes_FromStringAndSize
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_SET_ITEM
from libc.stdint cimport int64_t, uint32_t

include "source_digest.pxi"

cdef extern from "numbers.h" nogil:
    uint32_t get32(const unsigned char *at)

cdef extern from "Python.h":
    ctypedef struct PyTypeObject:
        pass

    object PyType_GenericAlloc(PyTypeObject *of, Py_ssize_t items)

cdef enum:
    LENGTH_BYTES = 4
    PREFIX_BYTES = 8

cdef tuple serializations = (0, 1)
cdef object Frame = None  # imported on first use: its module imports this one


cdef inline void put(object frame, Py_ssize_t at, object item) noexcept:
    Py_INCREF(item)
    PyTuple_SET_ITEM(frame, at, item)


def split(bytes data, list frames, int64_t frame_bytes_max, int64_t header_bytes_max):
    global Frame
    cdef const unsigned char *at = <unsigned char *>PyBytes_AsString(data)
    cdef const unsigned char *end = at + len(data)
    cdef const unsigned char *start = at
    cdef int64_t length, header_bytes
    cdef uint32_t mark
    cdef object frame
    if Frame is None:
        from skyrocket.protocol.frame import Frame
    while end - at >= PREFIX_BYTES:
        length, mark = <int64_t><int>get32(at), get32(at + LENGTH_BYTES)
        header_bytes = mark & 0xFFFFFF
        if mark >> 24 > 1 or not header_bytes + LENGTH_BYTES <= length <= frame_bytes_max - LENGTH_BYTES or header_bytes > header_bytes_max:
            return at - start, 0
        if length + LENGTH_BYTES > end - at:
            return at - start, length + LENGTH_BYTES
        frame = PyType_GenericAlloc(<PyTypeObject *>Frame, 3)  # as fast as a plain tuple
        put(frame, 0, serializations[mark >> 24])
        put(frame, 1, PyBytes_FromStringAndSize(<char *>at + PREFIX_BYTES, header_bytes))
        put(frame, 2, PyBytes_FromStringAndSize(<char *>at + PREFIX_BYTES + header_bytes, length - LENGTH_BYTES - header_bytes))
        frames.append(frame)
        at += LENGTH_BYTES + length
    return at - start, PREFIX_BYTES
