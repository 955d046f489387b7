"""Pulls whose headers are alike: the same bytes but for four numbers, as those of one consumer for one queue are.

    {"code":11,"extFields":{…,"queueOffset":"4711",…},…,"opaque":12,…}      a header
    {"code":11,"extFields":{…,"queueOffset":"·",…},…,"opaque":·,…}          its shape, where · is a byte 0

So a header has to be read once for each shape. JSON has no byte 0, and where it has no backslash, what looks like one of the four
names is one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from skyrocket.compiled import twin
from skyrocket.protocol.frame import Frame, Serialization
from skyrocket.protocol.requests import RequestCode

START: Final = b'{"code":%d,' % RequestCode.PULL_MESSAGE  # of the header: names are in alphabetical order in Java's
HEADER_BYTES_MAX: Final = 2048  # of those that are looked at

_NAMES: Final = (b'"opaque":', b'"queueOffset":', b'"maxMsgNums":', b'"commitOffset":')
_NUMBERS: Final = tuple(
    re.compile(rb"%b(0|[1-9][0-9]{0,17})(?=[,}])" % name if name == b'"opaque":' else rb'%b"(0|[1-9][0-9]{0,17})"' % name)
    for name in _NAMES
)
_INT32_MAX: Final = 2**31 - 1
_MARK: Final = b"\0"

Numbers = tuple[int, int, int, int]  # opaque, queue offset, messages at the most, commit offset


def _shape_of(header: bytes) -> tuple[bytes, Numbers] | None:
    """None where one of the numbers is not there, or twice, or below zero, or too large."""
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


def _alike_pulls(frames: Sequence[Frame], at: int, most: int) -> tuple[bytes, list[Numbers]]:
    """The pulls from frame `at` on, `most` of them at the most, that have the shape of the first; that shape, and their numbers.
    There may be none."""
    first = b""
    alike: list[Numbers] = []
    for serialization, header, _ in frames[at : at + most]:
        found = _shape_of(header) if serialization == Serialization.JSON else None
        if found is None or (alike and found[0] != first):
            break
        first = found[0]
        alike.append(found[1])
    return first, alike


alike_pulls = twin("pull_requests", _alike_pulls)
