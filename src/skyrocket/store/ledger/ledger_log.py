"""The log of a node of a DLedger group: the commit log, with the header of an entry in front of each record.

    data     | header | record | header | record | … | padding |     a message is written once
    index    | where entry 0 lies | where entry 1 lies | …

An entry is numbered when it is appended: index, term and position. Data and index get the entry in the same call, and are synced
together. So each of them can be repaired with the other:

    the header of an entry is damaged     the index says what it was
    an index entry is damaged or missing  the header says what it was
    a record is damaged                   a filler takes its place (`log.damage`), and the entry keeps its index, term and size
    damage that was never confirmed, nor on disk for certain: the log ends there, as after a torn write
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from typing import Final

from skyrocket.store.cold_reads import ColdReads
from skyrocket.store.errors import StoreFormatError, store_error
from skyrocket.store.files import Files, OpenFiles
from skyrocket.store.ledger.entry import HEADER_BYTES, PADDING, EntryError, EntryHeader, pack_header, unpack_header
from skyrocket.store.ledger.entry_framing import FRAMED
from skyrocket.store.ledger.entry_index import INDEX_FILE_BYTES, EntryIndex
from skyrocket.store.ledger.entry_run import check_sizes, ends_of, frame_records, pack_index_entries
from skyrocket.store.log.commit_log import CommitLog, WrittenRun
from skyrocket.store.log.damage import FILLER_BYTES_MIN, make_filler
from skyrocket.store.log.readable import read_readable, readable_view
from skyrocket.store.log.scan import FoundRecord, record_at
from skyrocket.store.retention.expired_files import ExpiredFile

INDEX_ENTRIES_AT_ONCE: Final = 4096
_ZEROS_AT_ONCE: Final = 4 * 1024 * 1024  # bytes
_STEPS_BACK_MAX: Final = 64  # over damaged index entries, before the log is walked from its start
_ENTRY_BYTES_MIN: Final = HEADER_BYTES + FILLER_BYTES_MIN


class LedgerLog(CommitLog):
    def __init__(
        self,
        files: Files,
        opened: OpenFiles,
        directory: str,
        index_directory: str,
        segment_bytes: int,
        background: Executor | None = None,
        reads: ColdReads | None = None,
        index_file_bytes: int = INDEX_FILE_BYTES,
    ) -> None:
        super().__init__(files, opened, directory, segment_bytes, background, reads, FRAMED)
        self.entries = EntryIndex(files, opened, index_directory, reads, index_file_bytes)
        self.term = 0  # of the entries that this node appends as the leader
        self.last: EntryHeader | None = None  # the last entry; None in an empty log
        self.term_bound = 0  # no entry has a higher term
        self.lost_segments: list[int] = []  # that were missing when the log was loaded
        self.is_index_lost = False
        self.rewritten = 0  # index entries that recovery has written again
        self._walked: EntryHeader | None = None  # the last entry that recovery has accepted
        self._before: EntryHeader | None = None  # the one before it
        self._first: tuple[int, int] | None = None  # the log's start, and the index of the entry there

    def load(self) -> None:
        try:
            self.entries.load()
        except StoreFormatError:
            self.entries.remove()  # it is built again from the headers
        self.lost_segments = self._replace_lost_segments()
        super().load()
        self.is_index_lost = bool(self.segments.starts) and self.entries.room_end == 0

    def _replace_lost_segments(self) -> list[int]:
        """Create files of zeros in place of those that are missing in the middle, if the index says what was in them.

        Their entries are damaged then, and come from other nodes. Without the index, loading the log names the gap.
        """
        lost = self.segments.find_gaps()
        for start in lost:
            index = self.entries.find_at(start, self.entries.first, self.entries.room_end - 1)
            known = self.entries.get(index)
            if known is None or known.pos != start:
                return []
        for start in lost:
            self.segments.fill_gap(start)
        return lost

    # --- state

    @property
    def end_index(self) -> int:
        """The index of the last entry; -1 in an empty log."""
        return -1 if self.last is None else self.last.index

    @property
    def end_term(self) -> int:
        """The term of the last entry; -1 in an empty log."""
        return -1 if self.last is None else self.last.term

    @property
    def begin_index(self) -> int:
        """The index of the first entry; -1 in an empty log."""
        if self.last is None:
            return -1
        if self._first is None or self._first[0] != self.start:
            header = self.header_at(self.start)
            known = None if header is None else self.entries.get(header.index)
            if self.start == 0:
                self._first = (0, 0)
            elif header is None or (known is not None and known.pos != self.start):  # damaged: the index tells
                self._first = (self.start, self.entries.find_at(self.start, self.entries.first, self.last.index))
            else:
                self._first = (self.start, header.index)
        return self._first[1]

    def header_at(self, pos: int) -> EntryHeader | None:
        """Return the header of the entry that begins at `pos`; None when the log has none there."""
        start = self.segments.start_of(pos)
        if start is None or pos + HEADER_BYTES > start + self.segments.segment_bytes:
            return None
        header = unpack_header(read_readable(self.segments.file(start), pos - start, HEADER_BYTES))
        return header if header is not None and header.pos == pos else None

    def header_of(self, index: int) -> EntryHeader | None:
        """Return the header of an entry, which index and log agree on; None when the log does not have the entry."""
        if self.last is None or not self.has_index(index):
            return None
        if index == self.last.index:
            return self.last
        found = self.entries.get(index)
        return found if self.agrees(found) else self.find_header(index)

    def has_index(self, index: int) -> bool:
        return self.last is not None and self.begin_index <= index <= self.last.index

    def agrees(self, known: EntryHeader | None) -> bool:
        """Whether what the index has of an entry is in the log."""
        found = None if known is None else self.header_at(known.pos)
        return known is not None and found is not None and found[:4] == known[:4]

    def find_header(self, index: int) -> EntryHeader | None:
        """Find an entry whose index entry is damaged by the headers before it, and write the index entry again."""
        earlier = (self.entries.get(index - step) for step in range(1, _STEPS_BACK_MAX))
        before = next((found for found in earlier if found is not None and self.agrees(found)), None)
        headers = self.walk_headers(self.start if before is None else before.pos, self.end)
        header = next((each for each in headers if each.index >= index), None)
        if header is None or header.index != index:
            return None
        last = self.entries.get(index - 1)
        right = self._decide(header, -1 if last is None else last.term)
        if right is not None:
            with suppress(OSError):  # the next reader finds it in the same way
                self._correct(header, right)
        return right

    def _decide(self, header: EntryHeader, term_before: int) -> EntryHeader | None:
        """Return what an entry's header should be, if index and log do not agree; None when that cannot be told.

        Everything but the term follows from the place. The right term lies between those of the neighbours.
        """
        known = self.entries.get(header.index)
        following = self.header_at(header.end) or self.entries.get(header.index + 1)
        most = self.term_bound if following is None else following.term
        said = [header]
        if known is not None and known.pos == header.pos and known.size == header.size and known.term != header.term:
            said.append(known)
        fits = [each for each in said if term_before <= each.term <= most]
        return fits[0] if len(fits) == 1 else None

    def _correct(self, header: EntryHeader, right: EntryHeader) -> None:
        """Write the index entry or the header again, whichever is wrong."""
        if right.term != header.term:
            self.overwrite(header.pos, pack_header(right))
        else:
            self.entries.write([right])

    def walk_headers(self, pos: int, stop: int) -> Iterator[EntryHeader]:
        """Yield the headers of entries that begin from `pos` on, before `stop`, up to the first place without one."""
        while pos < stop:
            header = self.header_at(pos)
            if header is not None:
                yield header
                pos = header.end
            elif self._is_padding(pos):
                pos += self.segments.segment_bytes - pos % self.segments.segment_bytes
            else:
                return

    def _is_padding(self, pos: int) -> bool:
        start = self.segments.start_of(pos)
        rest = self.segments.segment_bytes - pos % self.segments.segment_bytes
        if start is None or rest < PADDING.size:
            return False
        return read_readable(self.segments.file(start), pos - start, PADDING.size) == self.framing.pack_blank(rest)

    # --- writing

    def _number(self, written: Sequence[WrittenRun]) -> None:
        """Give each new entry the next index, and the node's term."""
        index = self.end_index + 1
        for run in written:
            assert isinstance(run.data, bytearray)
            ends = [*(offset - HEADER_BYTES for offset in run.offsets[1:]), run.end]
            for offset, end in zip(run.offsets, ends, strict=bool(run.offsets)):
                pos = offset - HEADER_BYTES
                at = pos - run.start
                run.data[at : at + HEADER_BYTES] = pack_header(EntryHeader(end - pos, index, self.term, pos))
                index += 1

    def _frame(self, data: bytes, offsets: list[int]) -> bytes:
        check_sizes(len(data), offsets)
        return frame_records(data, offsets, self.end_index + 1, self.term)

    def plan_entries(self, entries: Sequence[bytes | memoryview]) -> list[WrittenRun]:
        """Place given entries behind the end, byte for byte. Raise EntryError when one does not belong there."""
        segment_bytes = self.segments.segment_bytes
        at, last = self.end, self.last
        run = WrittenRun(at, bytearray(), [], at)
        runs = [run]
        for entry in entries:
            header = unpack_header(entry)
            if header is None or header.size != len(entry):
                raise EntryError(f"{len(entry)} bytes behind index {-1 if last is None else last.index} are no entry.")
            room = segment_bytes - at % segment_bytes
            if header.size + PADDING.size > segment_bytes:
                raise EntryError(f"Entry {header.index} of {header.size} bytes does not fit in a file of {segment_bytes} bytes.")
            is_behind_padding = header.pos == at + room > at and room >= PADDING.size and at % segment_bytes > 0
            if header.size + PADDING.size > room or is_behind_padding:
                run.data.extend(self.framing.pack_blank(room))  # type: ignore[union-attr]  # a bytearray
                at += room
                run = WrittenRun(at, bytearray(), [], at)
                runs.append(run)
            self._check_next(header, last, at)
            run.data.extend(entry)  # type: ignore[union-attr]
            run.offsets.append(header.record_offset)
            at, last = header.end, header
            runs[-1] = run = run._replace(end=at)
        return runs

    def write_runs(self, runs: Sequence[WrittenRun], count: int) -> None:
        """Write what `plan_entries` has placed, all or none."""
        self._write(runs, count)

    def _check_next(self, header: EntryHeader, last: EntryHeader | None, at: int) -> None:
        if last is not None and header.index != last.index + 1:
            raise EntryError(f"Entry {header.index} does not follow entry {last.index}.")
        if last is not None and header.term < last.term:
            raise EntryError(f"Entry {header.index} has term {header.term}, less than the {last.term} of the one before it.")
        if header.pos != at:
            raise EntryError(
                f"Entry {header.index} belongs at {header.pos} of the log, and would come to lie at {at}. "
                f"All nodes need the same mappedFileSizeCommitLog."
            )

    def check_start(self, position: int) -> None:
        """Raise EntryError when no file of the log can start at a position."""
        if position < 0 or position % self.segments.segment_bytes:
            raise EntryError(
                f"The log cannot begin at {position}: its files have {self.segments.segment_bytes} bytes. "
                f"All nodes need the same mappedFileSizeCommitLog."
            )

    def begin_at(self, position: int) -> None:
        """Give up everything, and begin an empty log at a position where a file starts."""
        self.check_start(position)
        self.close()
        self.segments.drop_all()
        self.entries.remove()
        self.end = self.opened_at = position
        self.last = self._first = None

    def _write(self, written: Sequence[WrittenRun], count: int) -> None:
        packed = b"".join([pack_index_entries(run.data, run.start, run.offsets) for run in written])
        first, last = ends_of(written)
        try:
            if first is not None:
                self.entries.write_packed(first.index, packed)  # first: entries behind the end of the log do not count
        except OSError as error:
            raise store_error(f"appending {count} messages to the index of the ledger", error) from error
        super()._write(written, count)
        self.last = last or self.last

    def truncate(self, index: int, pos: int) -> None:
        """Cut the log from the entry `index` on, which begins at `pos`. Padding in front of it goes too.

        So the files do not depend on what was cut: all nodes with the same entries have the same bytes.
        """
        segments = self.segments
        before = self.entries.get(index - 1) if pos > self.start else None
        if before is not None:
            pos = before.end
        self.close()
        self.scrub()
        self._drop_windows()
        old_end, self.end, self.last = self.end, pos, before  # together: what is left stays readable if the disk fails now
        self.opened_at = min(self.opened_at, pos)
        while len(segments.starts) > 1 and segments.starts[-1] >= pos:
            segments.drop_last()
        start = segments.starts[-1]
        stop = min(old_end - start, segments.segment_bytes)
        file = segments.file_to_write(start)
        for at in range(pos - start, stop, _ZEROS_AT_ONCE):
            file.write(at, bytes(min(_ZEROS_AT_ONCE, stop - at)))
        file.sync()  # otherwise a power failure could bring an old sector back under a new record
        self.entries.cut(index)

    def overwrite(self, pos: int, entry: bytes | memoryview) -> None:
        """Write an entry again that was damaged."""
        start = self.segments.start_of(pos)
        assert start is not None
        self._drop_windows()
        self.segments.file_to_write(start).write(pos - start, entry)

    def forget_windows(self) -> None:
        """Bytes before the end have changed: entries were restored."""
        self._drop_windows()

    def take_first(self, count: int) -> list[ExpiredFile]:
        taken = super().take_first(count)
        header = self.header_at(self.start)
        return taken if header is None else taken + self.entries.take_before(header.index)

    def sync(self, start: int, stop: int) -> None:
        super().sync(start, stop)
        self.entries.sync()

    # --- recovery

    def follows(self, found: FoundRecord, view: memoryview, segment_start: int) -> bool:
        """Whether an entry has the next index, and no lower term.

        Where another program has cut the log without zeros, an entry of before may lie behind the end, whole and sound.
        """
        header = unpack_header(view, found.offset - HEADER_BYTES - segment_start)
        assert header is not None
        last = self._walked
        if last is not None:
            is_next = header.index == last.index + 1 or (header.pos > last.end and self._skips(last, header))
            if not is_next or header.term < last.term:
                return False
        if self._has_wrong_term(header, -1 if last is None else last.term):
            return False
        self._before, self._walked = last, header
        return True

    def _has_wrong_term(self, header: EntryHeader, term_before: int) -> bool:
        """Whether a bit has flipped in the term of a header: the index says another one, which fits between its neighbours."""
        known, following = self.entries.get(header.index), self.entries.get(header.index + 1)
        if known is None or following is None or known[:2] != header[:2] or known.pos != header.pos:
            return False
        return term_before <= known.term <= following.term < header.term

    def _skips(self, last: EntryHeader, header: EntryHeader) -> bool:
        """Whether entries may be missing between two, by their positions."""
        return 0 < header.index - last.index - 1 <= (header.pos - last.end) // _ENTRY_BYTES_MIN

    def keeps_behind(self, offset: int, safe_end: int) -> bool:
        return offset < max(safe_end, self.protected_end)

    def can_fill(self, offset: int, size: int) -> bool:
        return self._tiles(offset, size) is not None

    def make_fillers(self, offset: int, size: int, store_timestamp: int) -> bytes:
        """Return the entries of a damaged range, each with its header, and with its record if that is sound."""
        tiles = self._tiles(offset, size)
        if tiles is None:
            raise StoreFormatError(
                f"{size} bytes of the log at {offset} are damaged, and so is the index of the entries there. "
                f"Move the directory away; the node gets everything from its group again."
            )
        start = self.segments.start_of(offset)
        assert start is not None
        view = readable_view(self.segments.file(start), offset - start, size)
        parts: list[bytes | memoryview] = []
        at = offset
        for tile in tiles:
            body_at = tile.record_offset - start
            found = record_at(view, start, body_at) if tile.end - start <= len(view) else None
            is_whole = found is not None and found.size == tile.size - HEADER_BYTES
            body = bytes(view[body_at : tile.end - start]) if is_whole else None
            parts += (pack_header(tile), body or make_filler(tile.record_offset, tile.size - HEADER_BYTES, store_timestamp))
            at = tile.end
        if at < offset + size:
            parts.append(self.framing.pack_blank(offset + size - at))
        return b"".join(parts)

    def _tiles(self, offset: int, size: int) -> list[EntryHeader] | None:
        """Return the entries that together take a damaged range; None when neither the index nor the neighbours tell."""
        ends_segment = (offset + size) % self.segments.segment_bytes == 0
        tiles: list[EntryHeader] | None = self._indexed_tiles(offset, offset + size)
        if not tiles or tiles[0].pos != offset:
            tiles = self._guessed_tiles(offset, offset + size, ends_segment)
        if tiles is None:
            return None
        spare = offset + size - (tiles[-1].end if tiles else offset)
        fits = spare == 0 or (ends_segment and spare >= PADDING.size)
        return tiles if fits and all(tile.size >= _ENTRY_BYTES_MIN for tile in tiles) else None

    def _accepted_before(self, offset: int) -> EntryHeader | None:
        """Return the entry before damage at `offset`. The one behind it may have been accepted already."""
        walked = self._walked
        return walked if walked is None or walked.pos < offset else self._before

    def _indexed_tiles(self, offset: int, stop: int) -> list[EntryHeader]:
        """Return what the index has of the entries from `offset` up to `stop`, as far as they follow each other."""
        last = self._accepted_before(offset)
        index = self.entries.find_at(offset, self.entries.first, self.entries.room_end - 1) if last is None else last.index + 1
        tiles: list[EntryHeader] = []
        at = offset
        while (tile := self.entries.get(index)) is not None and tile.pos == at and tile.end <= stop:
            tiles.append(tile)
            at, index = tile.end, index + 1
        return tiles

    def _guessed_tiles(self, offset: int, stop: int, ends_segment: bool) -> list[EntryHeader] | None:
        """Return as many entries as are missing between the neighbours. Their sizes are lost, but their range is known."""
        last, following = self._accepted_before(offset), self.header_at(stop)
        if last is None or following is None:
            return None
        missing = following.index - last.index - 1
        room = stop - offset - (PADDING.size if ends_segment else 0)
        if missing < 0 or room < missing * _ENTRY_BYTES_MIN or (missing == 0 and not ends_segment):
            return None
        sizes = [_ENTRY_BYTES_MIN] * (missing - 1) + [room - (missing - 1) * _ENTRY_BYTES_MIN] if missing else []
        tiles, at = [], offset
        for number, size in enumerate(sizes, start=1):
            tiles.append(EntryHeader(size, last.index + number, last.term, at))
            at += size
        return tiles

    def _is_next(self, before: EntryHeader | None, known: EntryHeader) -> bool:
        """Whether an entry lies where one behind `before` must lie, by the index."""
        segment_bytes = self.segments.segment_bytes
        if before is None or known.end > self.segments.stop or known.size + PADDING.size > segment_bytes:
            return False
        return known.pos in (before.end, before.end - before.end % segment_bytes + segment_bytes)

    def set_end(self, offset: int) -> None:
        super().set_end(offset)
        self._reconcile()

    def _reconcile(self) -> None:
        """Find the last entry, and bring the index into line with the headers."""
        self._before = self._walked = None
        if self.end == self.start:
            self.last = None
            self.entries.cut(self.entries.first)
            return
        self.last = self._last_by_index()
        if self.last is None:
            self._index_headers(self._trusted_start())
        self.entries.cut(self.end_index + 1)
        self._drop_last_padding()

    def _drop_last_padding(self) -> None:
        """Let the log end with its last entry. The entry behind the padding was lost; another one may fit in its place."""
        if self.last is None or self.last.end == self.end or not self._is_end(self.last.end):
            return
        start = self.segments.start_of(self.last.pos)
        assert start is not None
        file = self.segments.file_to_write(start)
        file.write(self.last.end - start, bytes(PADDING.size))
        file.sync()
        self.end = self.last.end

    def _last_by_index(self) -> EntryHeader | None:
        """Return the last entry if the index has exactly the entries of the log; None otherwise."""
        count = self.entries.find_at(self.end, self.entries.first, self.entries.room_end - 1)
        last = self.entries.get(count - 1)
        if last is None or self.header_at(last.pos) is None or not self._is_end(last.end):
            return None
        found = self.header_at(last.pos)
        return last if found is not None and found[:4] == last[:4] and self._index_begins() else None

    def _index_begins(self) -> bool:
        first = self.header_at(self.start)
        return first is not None and (self.entries.get(first.index) or first._replace(size=0))[:4] == first[:4]

    def _is_end(self, pos: int) -> bool:
        """Whether nothing but padding lies between `pos` and the end of the log."""
        if pos == self.end:
            return True
        return (
            self.end % self.segments.segment_bytes == 0 and self.end - pos < self.segments.segment_bytes and self._is_padding(pos)
        )

    def _trusted_start(self) -> int:
        """Return the last segment whose first entry is in the index as it is in the log; the first one if there is none."""
        for start in reversed([each for each in self.segments.starts if each < self.end]):
            header = self.header_at(start)
            known = None if header is None else self.entries.get(header.index)
            if header is not None and known is not None and known[:4] == header[:4]:
                return start
        return self.start

    def _index_headers(self, pos: int) -> None:
        """Write the index of all entries from `pos` on, where it differs."""
        changed: list[EntryHeader] = []
        self.last = None
        for header in self.walk_headers(pos, self.end):
            known = self.entries.get(header.index)
            right = header
            if known is None or known[:4] != header[:4]:
                right = self._decide(header, self.end_term) or header
                changed.append(right)
                if right.term != header.term:
                    self.overwrite(header.pos, pack_header(right))
            self.last = right
        for first in range(0, len(changed), INDEX_ENTRIES_AT_ONCE):
            self._write_changed(changed[first : first + INDEX_ENTRIES_AT_ONCE])

    def _write_changed(self, changed: list[EntryHeader]) -> None:
        run: list[EntryHeader] = []
        for header in changed:
            if run and header.index != run[-1].index + 1:
                self.entries.write(run)
                run = []
            run.append(header)
        self.entries.write(run)
        self.rewritten += len(changed)

    def find_end_of(self, index: int) -> int:
        """Return where an entry ends, before recovery has looked at the index; the end of the last one if the log ends before."""
        known, before = self.entries.get(index), self.entries.get(index - 1)
        if known is not None and (self.agrees(known) or (self.agrees(before) and self._is_next(before, known))):
            return known.end
        end = self.start
        for header in self.walk_headers(self.start, self.segments.stop):
            if header.index > index:
                break
            end = header.end
        return end
