"""Find similar pull requests: requests whose headers differ only in four numbers, as those of one consumer for one queue do.

    {"code":11,"extFields":{…,"queueOffset":"4711",…},…,"opaque":12,…}      a header
    {"code":11,"extFields":{…,"queueOffset":"·",…},…,"opaque":·,…}          its shape, where · is a byte 0

So the broker decodes one header for each shape. A shape is unambiguous: JSON has no byte 0, and in a header without a
backslash, a text that looks like one of the four names is that name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from skyrocket.compiled import twin
from skyrocket.protocol.frame import Frame, Serialization
from skyrocket.protocol.requests import RequestCode

START: Final = b'{"code":%d,' % RequestCode.PULL_MESSAGE  # of a header by Java, which sorts names
HEADER_BYTES_MAX: Final = 2048  # a longer header takes the general path

_NAMES: Final = (b'"opaque":', b'"queueOffset":', b'"maxMsgNums":', b'"commitOffset":')
_NUMBERS: Final = tuple(
    re.compile(rb"%b(0|[1-9][0-9]{0,17})(?=[,}])" % name if name == b'"opaque":' else rb'%b"(0|[1-9][0-9]{0,17})"' % name)
    for name in _NAMES
)
_INT32_MAX: Final = 2**31 - 1
_MARK: Final = b"\0"

PullNumbers = tuple[int, int, int, int]  # opaque, queue offset, maximum number of messages, commit offset


def _split_shape(header: bytes) -> tuple[bytes, PullNumbers] | None:
    """Split a header into shape and numbers. Return None if a number is missing, repeated, negative or too large."""
    if len(header) > HEADER_BYTES_MAX or _MARK in header or b"\\" in header:
        return None
    found = []
    for name, number in zip(_NAMES, _NUMBERS, strict=True):
        match = number.search(header)
        if match is None or header.count(name) != 1:
            return None
        found.append(match)
    shape, at = [], 0
    for start, end in sorted(match.span(1) for match in found):
        shape.append(header[at:start])
        at = end
    opaque, queue_offset, count, commit_offset = (int(match[1]) for match in found)
    if max(opaque, count) > _INT32_MAX:
        return None
    return _MARK.join([*shape, header[at:]]), (opaque, queue_offset, count, commit_offset)


def _find_similar_pulls(frames: Sequence[Frame], at: int, most: int) -> tuple[bytes, list[PullNumbers]]:
    """Return the shape of the pull in frame `at`, and the numbers of this and the following pulls of that shape.

    Look at no more than `most` frames, and stop at the first with another shape. The list is empty if frame `at` has no shape.
    """
    first = b""
    similar: list[PullNumbers] = []
    for serialization, header, _ in frames[at : at + most]:
        found = _split_shape(header) if serialization == Serialization.JSON else None
        if found is None or (similar and found[0] != first):
            break
        first = found[0]
        similar.append(found[1])
    return first, similar


find_similar_pulls = twin("pull_requests", _find_similar_pulls)
