# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Twin of `store/log/record_run.py`: what queues and index need of ordinary records that follow each other in the log."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer

from cpython.list cimport PyList_GET_SIZE

include "source_digest.pxi"
include "pieces.pxi"
include "readdress.pxi"
include "record_reader.pxi"


def read_run(view, int64_t segment_start, int64_t at, Py_ssize_t most, shapes):
    from skyrocket.store.log.record_run import read_ordinary
    cdef _RecordReader reader = _RecordReader(shapes)
    cdef list run = []
    cdef object one
    cdef const unsigned char *record
    cdef Py_buffer buffer
    if at < 0:
        raise ValueError(f"there is no byte {at}")
    PyObject_GetBuffer(view, &buffer, PyBUF_SIMPLE)
    try:
        while PyList_GET_SIZE(run) < most and at < buffer.len:
            record = <const unsigned char *>buffer.buf + at
            one = reader.read(record, buffer.len - at, segment_start + at)
            if one is None:
                one = read_ordinary(view, segment_start, at)
            elif <int32_t>get32(record + SYS_FLAG_AT) & TRANSACTION_MASK == TRANSACTION_ROLLBACK:
                break
            if one is None:
                break
            run.append(one)
            at += <int64_t>(<tuple>one)[4]
    finally:
        PyBuffer_Release(&buffer)
    return run
