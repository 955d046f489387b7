"""Headers, index entries and the small files: round trips, and bytes that are none of them."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyrocket.store.errors import StoreFormatError
from skyrocket.store.files import Disk, OpenFiles
from skyrocket.store.ledger.entry import HEADER_BYTES, EntryHeader, pack_header, unpack_header
from skyrocket.store.ledger.entry_framing import FRAMED
from skyrocket.store.ledger.entry_index import EntryIndex, pack_index_entry, unpack_index_entry
from skyrocket.store.ledger.node_files import (
    LedgerCheckpoint,
    TermVote,
    decode_ledger_checkpoint,
    decode_term,
    encode_ledger_checkpoint,
    encode_term,
)

INT64 = st.integers(0, 2**63 - 1)
HEADERS = st.tuples(st.integers(HEADER_BYTES, 2**31 - 1), INT64, INT64, INT64).map(lambda fields: EntryHeader(*fields))


@given(HEADERS)
def test_headers_and_index_entries_are_what_was_written(header: EntryHeader) -> None:
    assert unpack_header(pack_header(header)) == header
    assert unpack_index_entry(pack_index_entry(header)) == header


@given(st.binary(max_size=200), st.integers(-10, 210))
def test_any_bytes_are_a_header_or_none(data: bytes, at: int) -> None:
    unpack_header(data, at)
    unpack_index_entry(data, max(0, at))
    view = memoryview(data)
    assert FRAMED.record_at(view, 0, max(0, at)) is None
    FRAMED.next_sound(view, 0, 0)
    if data:
        FRAMED.is_blank(view, 0)


def test_a_header_whose_sizes_disagree_is_none() -> None:
    packed = bytearray(pack_header(EntryHeader(100, 1, 1, 0)))
    for at in (3, 7, 47):
        wrong = bytearray(packed)
        wrong[at] ^= 1
        assert unpack_header(bytes(wrong)) is None


@given(INT64.filter(lambda term: term < 10**18), st.one_of(st.none(), st.from_regex(r"[a-z][0-9]{1,3}", fullmatch=True)))
def test_term_and_vote_are_what_was_written(term: int, voted_for: str | None) -> None:
    assert decode_term(encode_term(TermVote(term, voted_for))) == TermVote(term, voted_for)


def test_javas_properties_may_come_in_any_order_and_with_comments() -> None:
    assert decode_term(b"#Mon Nov 16\r\ncurrTerm=12\r\nvoteLeader=\r\n") == TermVote(12, None)
    assert decode_term(b"currTerm = 3\nvoteLeader = n1\n") == TermVote(3, "n1")


@pytest.mark.parametrize("data", [b"", b"\0" * 25, b"currTerm=x\n", b"currTerm=-1\n", b"voteLeader=n0\n", b"\xff" * 99])
def test_a_term_file_without_a_term_is_refused(data: bytes) -> None:
    with pytest.raises(StoreFormatError, match="does not say the node's term"):
        decode_term(data)


@given(st.binary(max_size=100))
def test_any_checkpoint_is_a_value(data: bytes) -> None:
    decode_ledger_checkpoint(data)


def test_a_checkpoint_is_what_was_written() -> None:
    for checkpoint in (LedgerCheckpoint(), LedgerCheckpoint(5, 3), LedgerCheckpoint(10**17, 10**17)):
        assert decode_ledger_checkpoint(encode_ledger_checkpoint(checkpoint)) == checkpoint
    assert decode_ledger_checkpoint(b"endIndex=9\n") == LedgerCheckpoint(9, -1)


def test_index_entries_cross_files_and_are_found_by_position(tmp_path: Path) -> None:
    files = Disk()
    index = EntryIndex(files, OpenFiles(files, 8), str(tmp_path / "index"), file_bytes=32 * 10)
    rng, headers, pos = Random(3), [], 0
    for number in range(35):
        headers.append(EntryHeader(rng.randrange(140, 900), number, 1, pos))
        pos = headers[-1].end
    index.write(headers[:7])
    index.write(headers[7:])
    assert [index.get(number) for number in range(35)] == headers
    assert index.get(35) is None
    assert index.read(5, 100) == headers[5:10], "up to the end of a file"
    for header in headers:
        assert index.find_at(header.pos, 0, 34) == header.index
        assert index.find_at(header.pos + 1, 0, 34) == header.index + 1
    index.cut(22)
    assert [index.get(number) is not None for number in range(35)] == [True] * 22 + [False] * 13
    assert len(list((tmp_path / "index").iterdir())) == 3
    taken = index.take_before(15)
    assert [Path(each.path).name for each in taken] == [f"{0:020d}"]
    assert index.first == 10
