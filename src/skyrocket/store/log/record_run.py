"""Runs of ordinary records in the log: what queues and index need of them, without an object for each record.

    log   | record | record | record | anything else: damage, a filler, a blank, the end of the log …
    run   | fields | fields | fields |

A record is ordinary if it is sound, queues and index need nothing but its own bytes, and it certainly is not torn: a power
failure leaves zeros, and neither its topic nor its properties have any. What ends a run is for the caller to look at
(`scan.item_at`).
"""

from __future__ import annotations

from skyrocket.compiled import twin
from skyrocket.protocol.message.record import Record
from skyrocket.protocol.sysflag import TRANSACTION_MASK, TRANSACTION_ROLLBACK
from skyrocket.protocol.system_names import SCHEDULE_TOPIC
from skyrocket.store.log.property_shapes import ShapeCache
from skyrocket.store.log.scan import record_at
from skyrocket.store.message import DispatchFields, dispatch_request_of


def _is_ordinary(record: Record) -> bool:
    is_message = record.topic != SCHEDULE_TOPIC and record.sys_flag & TRANSACTION_MASK != TRANSACTION_ROLLBACK
    return is_message and "\0" not in record.topic and b"\0" not in record.properties


def read_ordinary(view: memoryview | bytes, segment_start: int, at: int) -> DispatchFields | None:
    """Return what queues and index need of the record at `at`; None when no ordinary record starts there."""
    found = record_at(memoryview(view), segment_start, at)
    return None if found is None or not _is_ordinary(found.record) else dispatch_request_of(found.record, found.size, ())


def _read_run(
    view: memoryview | bytes,
    segment_start: int,
    at: int,
    most: int,
    shapes: ShapeCache,  # noqa: ARG001 — the twin's
) -> list[DispatchFields]:
    """Return what queues and index need of the ordinary records from `at` on, of at most so many."""
    if at < 0:
        raise ValueError(f"there is no byte {at}")
    run: list[DispatchFields] = []
    while len(run) < most and (one := read_ordinary(view, segment_start, at)) is not None:
        run.append(one)
        at += one[4]
    return run


read_run = twin("record_run", _read_run)
