# cython: language_level=3, binding=False
"""Twin of `clock.py`: the clocks of this machine, in whole milliseconds."""

from libc.stdint cimport int64_t
from posix.time cimport CLOCK_MONOTONIC, CLOCK_REALTIME, clock_gettime, clockid_t, timespec

include "source_digest.pxi"


cdef int64_t read_ms(clockid_t clock) noexcept:
    cdef timespec now
    clock_gettime(clock, &now)
    return <int64_t>now.tv_sec * 1000 + now.tv_nsec // 1000000


def monotonic_ms():
    return read_ms(CLOCK_MONOTONIC)


def machine_ms():
    return read_ms(CLOCK_REALTIME)
