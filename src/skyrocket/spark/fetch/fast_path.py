"""Answers as one expects them: in the order of the pulls, each with as many messages as it should have, and nothing to be told.

Those are taken together, without an object for each. The first that is anything else, or not complete yet, is left to `Intake`.
"""

from __future__ import annotations

from collections.abc import Sequence

from skyrocket.columnar.rows import START_BYTES, find_record_starts
from skyrocket.compiled import twin
from skyrocket.protocol.frame import PREFIX
from skyrocket.protocol.limits import HEADER_BYTES_MAX
from skyrocket.spark.fetch.pull_window import Ask

_LENGTH_BYTES = 4


def _ordinary(view: memoryview, at: int, filled: int, broker_id: int, asks: Sequence[Ask]) -> tuple[int, int, bytes]:
    """How many of the pulls were answered so, from `at` up to `filled`; where the next answer begins; and where the records of
    these start, as packed int64. In JSON a quote within a text does not stand alone, so to look for these words is enough."""
    suggested = b'"suggestWhichBrokerId":"%d"' % broker_id
    taken, pieces = 0, []
    for number, offset, upto, _ in asks:
        if filled - at < PREFIX.size:
            break
        length, mark = PREFIX.unpack_from(view, at)
        body, end = at + PREFIX.size + mark, at + _LENGTH_BYTES + length
        if mark > HEADER_BYTES_MAX or not body <= end <= filled or upto <= offset:  # or beyond: a header of the other kind
            break
        header = view[at + PREFIX.size : body].tobytes()
        words = (b'"code":0,', b'"opaque":%d,' % number, b'"nextBeginOffset":"%d"' % upto, suggested)
        if not all(word in header for word in words):
            break
        starts, chain_end = find_record_starts(view, body, end, upto - offset)
        if chain_end != end or len(starts) != (upto - offset) * START_BYTES:
            break
        pieces.append(starts)
        taken, at = taken + 1, end
    return taken, at, b"".join(pieces)


ordinary = twin("pull_responses", _ordinary)
