# A buffer in pieces, for records that are written one behind the other. Modules include this file.

from cpython.bytes cimport PyBytes_AsString, PyBytes_FromStringAndSize, PyBytes_Size, _PyBytes_Resize
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE, PyTuple_New, PyTuple_SET_ITEM
from libc.stdint cimport int32_t, int64_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memchr, memcpy

cdef extern from "numbers.h" nogil:
    void put16(unsigned char *at, uint16_t value)
    void put32(unsigned char *at, uint32_t value)
    void put64(unsigned char *at, uint64_t value)
    uint16_t get16(const unsigned char *at)
    uint32_t get32(const unsigned char *at)
    uint64_t get64(const unsigned char *at)


cdef inline unsigned char *bytes_of(object data) except NULL:
    return <unsigned char *>PyBytes_AsString(data)


cdef unsigned char *copy_bytes(unsigned char *at, object data) except NULL:
    """Copy `data` to `at`. Return where it ends."""
    cdef Py_ssize_t size = PyBytes_Size(data)
    memcpy(at, bytes_of(data), size)
    return at + size


cdef unsigned char *copy_with_key(unsigned char *at, bytes data, const unsigned char *key, size_t key_bytes) except NULL:
    """Copy `data` to `at`, with the key in place of each mark. Return where it ends."""
    cdef const unsigned char *start = bytes_of(data)
    cdef const unsigned char *end = start + PyBytes_Size(data)
    cdef const unsigned char *mark = <const unsigned char *>memchr(start, 0, end - start)
    while mark != NULL:
        memcpy(at, start, mark - start)
        memcpy(at + (mark - start), key, key_bytes)
        at, start = at + (mark - start) + key_bytes, mark + 1
        mark = <const unsigned char *>memchr(start, 0, end - start)
    memcpy(at, start, end - start)
    return at + (end - start)


cdef tuple prepend(object first, tuple rest):
    cdef Py_ssize_t count = PyTuple_GET_SIZE(rest), number
    cdef tuple whole = PyTuple_New(count + 1)
    cdef object one
    Py_INCREF(first)
    PyTuple_SET_ITEM(whole, 0, first)
    for number in range(count):
        one = <object>PyTuple_GET_ITEM(rest, number)
        Py_INCREF(one)
        PyTuple_SET_ITEM(whole, number + 1, one)
    return whole


cdef class _Pieces:
    """Pieces of memory into which records are written one behind the other."""

    cdef list parts  # finished pieces
    cdef object piece
    cdef unsigned char *at  # where the next record goes
    cdef unsigned char *end
    cdef size_t usual_bytes

    def __init__(self, list parts, size_t usual_bytes):
        self.parts = parts
        self.usual_bytes = usual_bytes

    cdef int make_room(self, size_t size) except -1:
        """Make sure that the current piece has room for a record of this size."""
        if <size_t>(self.end - self.at) < size:
            self.close()
            self.piece = PyBytes_FromStringAndSize(NULL, max(size, self.usual_bytes))
            self.at = bytes_of(self.piece)
            self.end = self.at + PyBytes_Size(self.piece)
        return 0

    cdef int close(self) except -1:
        """Finish the current piece: cut it to what was written."""
        cdef PyObject *piece
        cdef size_t written
        if self.piece is None:
            return 0
        written = self.at - bytes_of(self.piece)
        piece = <PyObject *>self.piece
        Py_INCREF(self.piece)
        self.piece, self.at, self.end = None, NULL, NULL
        if _PyBytes_Resize(&piece, written) < 0:
            raise MemoryError
        self.parts.append(<object>piece)
        Py_DECREF(<object>piece)
        return 0
