"""Find similar pull requests: requests whose headers differ only in four numbers, as those of one consumer for one queue do.

    {"code":11,"extFields":{…,"queueOffset":"4711",…},…,"opaque":12,…}      a header
    {"code":11,"extFields":{…,"queueOffset":"·",…},…,"opaque":·,…}          its shape, where · is a byte 0

So the broker decodes one header for each shape. A shape is unambiguous: JSON has no byte 0, and in a header without a
backslash, a text that looks like one of the four names is that name.

The shape of a binary header is a byte 1 and the header without its number, the length of its fields, and the values of the three
other numbers with their lengths. The names before them say which values are missing.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from typing import Final

from skyrocket.compiled import twin
from skyrocket.protocol.frame import Frame, Serialization
from skyrocket.protocol.requests import RequestCode

CODES: Final = (RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE)
HEADER_BYTES_MAX: Final = 2048  # a longer header takes the general path

_NAMES: Final = (b'"opaque":', b'"queueOffset":', b'"maxMsgNums":', b'"commitOffset":')
_NUMBERS: Final = tuple(
    re.compile(rb"%b(0|[1-9][0-9]{0,17})(?=[,}])" % name if name == b'"opaque":' else rb'%b"(0|[1-9][0-9]{0,17})"' % name)
    for name in _NAMES
)
_INT32_MAX: Final = 2**31 - 1
_MARK: Final = b"\0"
_FIXED: Final = struct.Struct(">5si8si")  # of a binary header: code to version, number, flag and remark's length, fields' length
_NAME_LENGTH: Final = struct.Struct(">h")
_VALUE_LENGTH: Final = struct.Struct(">i")
_BINARY_NAMES: Final = {b"queueOffset": 1, b"maxMsgNums": 2, b"commitOffset": 3}  # → index in PullNumbers
_BINARY_MARK: Final = b"\1"
_DIGITS: Final = re.compile(rb"0|[1-9][0-9]{0,17}")

PullNumbers = tuple[int, int, int, int]  # opaque, queue offset, maximum number of messages, commit offset


def header_starts(code: int) -> tuple[bytes, bytes]:
    """Return how a pull's header begins in JSON, by Java, which sorts names, and in binary."""
    return b'{"code":%d,' % code, code.to_bytes(2)


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


def _split_binary_shape(header: bytes) -> tuple[bytes, PullNumbers] | None:
    """Split a binary header into shape and numbers. Return None for one that is malformed, has a remark, or as `_split_shape`."""
    if not _FIXED.size <= len(header) <= HEADER_BYTES_MAX:
        return None
    begin, opaque, flag_and_remark, fields_bytes = _FIXED.unpack_from(header)
    if opaque < 0 or any(flag_and_remark[4:]) or _FIXED.size + fields_bytes != len(header):
        return None
    numbers = [opaque, -1, -1, -1]
    shape, at, end = [_BINARY_MARK, begin, flag_and_remark], _FIXED.size, len(header)
    while at < end:
        name_at = at + _NAME_LENGTH.size
        name_end = name_at + (_NAME_LENGTH.unpack_from(header, at)[0] if name_at <= end else end)
        value_at = name_end + _VALUE_LENGTH.size
        if name_end < name_at or value_at > end:
            return None
        value_end = value_at + _VALUE_LENGTH.unpack_from(header, name_end)[0]
        if not value_at <= value_end <= end:
            return None
        which = _BINARY_NAMES.get(header[name_at:name_end])
        if which is None:
            shape.append(header[at:value_end])
        else:
            if numbers[which] >= 0 or not _DIGITS.fullmatch(header, value_at, value_end):
                return None
            numbers[which] = int(header[value_at:value_end])
            shape.append(header[at:name_end])
        at = value_end
    if min(numbers) < 0 or numbers[2] > _INT32_MAX:
        return None
    return b"".join(shape), (numbers[0], numbers[1], numbers[2], numbers[3])


def _find_similar_pulls(frames: Sequence[Frame], at: int, most: int) -> tuple[bytes, list[PullNumbers]]:
    """Return the shape of the pull in frame `at`, and the numbers of this and the following pulls of that shape.

    Look at no more than `most` frames, and stop at the first with another shape. The list is empty if frame `at` has no shape.
    """
    first = b""
    similar: list[PullNumbers] = []
    for serialization, header, _ in frames[at : at + most]:
        found = _split_shape(header) if serialization == Serialization.JSON else _split_binary_shape(header)
        if found is None or (similar and found[0] != first):
            break
        first = found[0]
        similar.append(found[1])
    return first, similar


find_similar_pulls = twin("pull_requests", _find_similar_pulls)
