"""Mutated frames: each parses, or raises the one typed error. Nothing else happens, and no memory stays behind."""

from __future__ import annotations

import os
import random
import struct
import tracemalloc
from contextlib import suppress
from itertools import pairwise

import pytest

from skyrocket.protocol.command import CommandDecoder, MalformedCommandError
from skyrocket.protocol.errors import ProtocolError
from skyrocket.protocol.frame import FrameSplitter
from tests.support.exercise import exercise
from tests.support.golden import golden_frames

FRAMES = int(os.environ.get("SKYROCKET_FUZZ_FRAMES", "50000"))
SHARDS = 2
BYTE_BY_BYTE_EVERY = 16  # of these mutants one; the others come in pieces of chosen sizes
PIECE_BYTES = [1, 2, 3, 4, 5, 7, 8, 13, 64, 1_460]
FRAMES_PER_CHECK = 2_000
MEMORY_GROWTH_MAX = 4 * 1024 * 1024  # caches of decoders and hosts fill; a leak of one small object a frame would pass this

SEEDS = [golden.frame for golden in golden_frames()]
CODES = [golden.request_code for golden in golden_frames()]
INTERESTING = [0, 1, 0x7F, 0x80, 0xFF]
INTERESTING_WORDS = [0, 1, -1, 2**31 - 1, -(2**31), 0x00FFFFFF, 0x01FFFFFF, 16 * 1024 * 1024, 8, 4, 3]


def flip(data: bytearray, chance: random.Random) -> None:
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)


def poke(data: bytearray, chance: random.Random) -> None:
    data[chance.randrange(len(data))] = chance.choice(INTERESTING)


def poke_word(data: bytearray, chance: random.Random) -> None:
    at = chance.randrange(max(1, len(data) - 4))
    data[at : at + 4] = struct.pack(">i", chance.choice(INTERESTING_WORDS))


def cut(data: bytearray, chance: random.Random) -> None:
    at = chance.randrange(len(data))
    del data[at : at + chance.randrange(1, 16)]


def repeat(data: bytearray, chance: random.Random) -> None:
    at = chance.randrange(len(data))
    data[at:at] = data[at : at + chance.randrange(1, 32)]


def splice(data: bytearray, chance: random.Random) -> None:
    other = chance.choice(SEEDS)
    data[chance.randrange(len(data)) :] = other[chance.randrange(len(other)) :]


def digits(data: bytearray, chance: random.Random) -> None:
    """Grow a number inside JSON or text."""
    at = chance.randrange(len(data))
    data[at:at] = chance.choice([b"9" * 30, b"-", b"e9", b".", b'"', b"null", b"{", b"[" * 40, b"\\u0000", b"\xff", b"\\ud800"])


MUTATIONS = [flip, flip, poke, poke_word, cut, repeat, splice, digits]


def with_right_length(data: bytearray) -> None:
    """Half of the mutants keep a true length field, so that what is behind it is reached."""
    if len(data) >= 8:
        struct.pack_into(">i", data, 0, len(data) - 4)


def mutant(chance: random.Random) -> tuple[int, bytes]:
    which = chance.randrange(len(SEEDS))
    data = bytearray(SEEDS[which])
    for _ in range(chance.choice([1, 1, 2, 4])):
        if data:
            chance.choice(MUTATIONS)(data, chance)
    if chance.random() < 0.5:
        with_right_length(data)
    return CODES[which], bytes(data)


def outcome(pieces: list[bytes]) -> tuple[list[object], str | None]:
    """What a decoder made of the pieces: its commands, and the sentence of its error."""
    decoder = CommandDecoder(FrameSplitter())
    commands: list[object] = []
    try:
        for piece in pieces:
            commands += decoder.feed(piece)
    except MalformedCommandError as error:
        return commands + list(error.commands), str(error)
    return commands, None


def pieces(data: bytes, chance: random.Random) -> list[bytes]:
    """The data as a socket may bring it: in pieces of some sizes, the first ones within the length fields."""
    ends = [0]
    while ends[-1] < len(data):
        ends.append(ends[-1] + chance.choice(PIECE_BYTES))
    return [data[begin:end] for begin, end in pairwise(ends)]


@pytest.mark.parametrize("shard", range(SHARDS))
def test_mutated_frames_parse_or_raise_the_typed_error(shard: int):
    chance = random.Random(f"skyrocket-{shard}")
    arrival = random.Random(shard)
    parsed = refused = deep = 0
    baseline = 0
    for number in range(FRAMES // SHARDS):
        asked, data = mutant(chance)
        commands, sentence = outcome([data])
        parsed += len(commands)
        refused += sentence is not None
        single = number % BYTE_BY_BYTE_EVERY == 0  # however the bytes arrive, it comes to the same end
        arriving = [data[at : at + 1] for at in range(len(data))] if single else pieces(data, arrival)
        assert outcome(arriving) == (commands, sentence), data.hex()
        for command in commands:
            with suppress(ProtocolError):
                exercise(command, asked)
                deep += 1
        if number == FRAMES_PER_CHECK:
            tracemalloc.start()
        if number == 2 * FRAMES_PER_CHECK:
            baseline = tracemalloc.get_traced_memory()[0]
    grown = tracemalloc.get_traced_memory()[0] - baseline
    tracemalloc.stop()
    assert grown < MEMORY_GROWTH_MAX, f"memory grew by {grown} bytes"
    assert parsed > FRAMES // SHARDS // 10, "the mutants must not all be refused"
    assert refused > FRAMES // SHARDS // 10, "the mutants must not all be sound"
    assert deep > 0
