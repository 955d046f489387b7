"""Takes expected pull responses all at once, without an object for each.

An expected response is the next in the order of the pulls, has code SUCCESS, suggests the same broker, and holds exactly the
messages that its pull asked for. The first response that differs, or that is incomplete, stays for `ReceiveBuffer.responses`.
"""

from __future__ import annotations

from collections.abc import Sequence

from skyrocket.columnar.rows import START_BYTES, find_record_starts
from skyrocket.compiled import twin
from skyrocket.protocol.frame import PREFIX
from skyrocket.protocol.limits import HEADER_BYTES_MAX
from skyrocket.spark.fetch.pull_window import PlannedPull

_LENGTH_BYTES = 4


def _take_expected(
    view: memoryview, at: int, filled: int, broker_id: int, pulls: Sequence[PlannedPull]
) -> tuple[int, int, bytes]:
    """Take the expected responses between `at` and `filled`.

    Return how many pulls they answer, where the next response starts, and the starts of their records as packed int64. The
    header is searched as text: JSON escapes a quote inside a string, so these words match only real fields.
    """
    suggested = b'"suggestWhichBrokerId":"%d"' % broker_id
    taken, pieces = 0, []
    for number, offset, upto, _ in pulls:
        if filled - at < PREFIX.size:
            break
        length, mark = PREFIX.unpack_from(view, at)
        body, end = at + PREFIX.size + mark, at + _LENGTH_BYTES + length
        if mark > HEADER_BYTES_MAX or not body <= end <= filled or upto <= offset:  # a binary header exceeds the maximum, too
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


take_expected = twin("pull_responses", _take_expected)
