# cython: language_level=3, boundscheck=False, wraparound=False
"""Twin of `protocol/message/message_id.py`: builds ids that differ in their trailing number."""

from libc.string cimport memcpy

include "source_digest.pxi"

cdef extern from "Python.h":
    str PyUnicode_New(Py_ssize_t size, Py_UCS4 highest)
    Py_UCS4 PyUnicode_MAX_CHAR_VALUE(object text)
    Py_ssize_t PyUnicode_CopyCharacters(object to, Py_ssize_t at, object text, Py_ssize_t start, Py_ssize_t size) except -1
    int PyUnicode_WriteChar(object text, Py_ssize_t at, Py_UCS4 character) except -1
    int PyUnicode_IS_ASCII(object text)
    unsigned char *PyUnicode_1BYTE_DATA(object text)

cdef enum:
    DIGITS = 4

cdef char *HEXADECIMAL = b"0123456789ABCDEF"


def format_ids(str before not None, unsigned int first, Py_ssize_t count):
    cdef Py_ssize_t size = len(before), place
    cdef unsigned int number
    cdef str one
    cdef list ids = []
    if PyUnicode_IS_ASCII(before):
        for number in range(first, first + <unsigned int>max(count, 0)):
            one = PyUnicode_New(size + DIGITS, 0x7F)
            memcpy(PyUnicode_1BYTE_DATA(one), PyUnicode_1BYTE_DATA(before), size)
            for place in range(DIGITS):
                PyUnicode_1BYTE_DATA(one)[size + place] = HEXADECIMAL[number >> 4 * (DIGITS - 1 - place) & 0xF]
            ids.append(one)
        return ids
    for number in range(first, first + <unsigned int>max(count, 0)):
        one = PyUnicode_New(size + DIGITS, PyUnicode_MAX_CHAR_VALUE(before))
        PyUnicode_CopyCharacters(one, 0, before, 0, size)
        for place in range(DIGITS):
            PyUnicode_WriteChar(one, size + place, HEXADECIMAL[number >> 4 * (DIGITS - 1 - place) & 0xF])
        ids.append(one)
    return ids
