"""The splitter returns whole frames from pieces of any size, and a malformed stream stays refused."""

from __future__ import annotations

import struct

import pytest

from skyrocket.protocol.errors import FrameError
from skyrocket.protocol.frame import Frame, FrameSplitter, MalformedFrameError, Serialization, join_frame
from skyrocket.protocol.limits import FRAME_BYTES_MAX

HELLO = join_frame(Serialization.JSON, b'{"code":1}', b"hello")
WORLD = join_frame(Serialization.ROCKETMQ, b"h" * 30, b"world")


def test_two_frames_in_one_piece():
    assert FrameSplitter().feed(HELLO + WORLD) == [Frame(0, b'{"code":1}', b"hello"), Frame(1, b"h" * 30, b"world")]


def test_a_frame_without_a_body():
    assert FrameSplitter().feed(join_frame(0, b"{}")) == [Frame(0, b"{}", b"")]


@pytest.mark.parametrize("piece", range(1, len(HELLO) + len(WORLD)))
def test_pieces_of_any_size(piece: int):
    splitter, stream = FrameSplitter(), HELLO + WORLD
    frames = [frame for at in range(0, len(stream), piece) for frame in splitter.feed(stream[at : at + piece])]
    assert frames == FrameSplitter().feed(stream)
    assert not splitter.pending


def test_feed_accepts_bytearrays_and_memoryviews():
    assert FrameSplitter().feed(bytearray(HELLO)) == FrameSplitter().feed(memoryview(HELLO)) == FrameSplitter().feed(HELLO)


def test_the_fed_buffer_may_be_used_again_by_its_owner():
    buffer = bytearray(HELLO)
    (frame,) = FrameSplitter().feed(memoryview(buffer))
    buffer[:] = bytes(len(buffer))
    assert frame.body == b"hello"


@pytest.mark.parametrize(
    ("prefix", "sentence"),
    [
        (struct.pack(">iI", -1, 0), "A frame says it has -1 bytes"),
        (struct.pack(">iI", 3, 0), "A frame says it has 3 bytes"),
        (struct.pack(">iI", FRAME_BYTES_MAX - 3, 0), "larger than the 16777216 allowed"),
        (struct.pack(">iI", 100, 97), "A header of 97 bytes does not fit in a frame of 100 bytes"),
        (struct.pack(">iI", 3_000_000, 2_000_000), "A header of 2000000 bytes is larger than the 1048576 allowed"),
        (struct.pack(">iI", 100, 2 << 24 | 10), "A header's serialization is 2"),
        (b"GET / HT", "larger than the 16777216 allowed"),
    ],
)
def test_a_malformed_prefix_is_refused_from_its_first_eight_bytes(prefix: bytes, sentence: str):
    splitter = FrameSplitter()
    with pytest.raises(FrameError, match=sentence):
        splitter.feed(prefix)
    assert not splitter.pending


def test_frames_before_a_malformed_one_are_returned():
    splitter = FrameSplitter()
    with pytest.raises(MalformedFrameError) as caught:
        splitter.feed(HELLO + struct.pack(">iI", -1, 0))
    assert caught.value.frames == [Frame(0, b'{"code":1}', b"hello")]


def test_a_broken_stream_stays_broken():
    splitter = FrameSplitter()
    for data in (struct.pack(">iI", -1, 0), HELLO, b""):
        with pytest.raises(MalformedFrameError, match="says it has -1") as caught:
            splitter.feed(data)
    assert caught.value.frames == []


def test_the_largest_frame_is_accepted_and_one_byte_more_is_refused():
    largest = join_frame(0, b"{}", bytes(FRAME_BYTES_MAX - 10))
    assert len(largest) == FRAME_BYTES_MAX
    assert len(FrameSplitter().feed(largest)) == 1
    with pytest.raises(FrameError, match="larger than"):
        join_frame(0, b"{}", bytes(FRAME_BYTES_MAX - 9))


def test_a_large_frame_in_small_pieces_is_split_once_when_complete():
    splitter = FrameSplitter()
    frame = join_frame(0, b"{}", bytes(4 * 1024 * 1024))
    pieces = [frame[at : at + 4096] for at in range(0, len(frame), 4096)]
    assert [len(splitter.feed(piece)) for piece in pieces] == [0] * (len(pieces) - 1) + [1]
