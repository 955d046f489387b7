"""What is known of the messages in the timer topic: which of them wait, and in which slot of time.

    rmq_sys_wheel_timer, queue 0      ──────────▶ queue_offset                 the topic: messages, the truth
    timer log                         ───────────────▶ end                     one unit for each message before queue_offset
    timer wheel                       slot → its last unit                     found again from the log
    progress                          read_ms: slots before it were delivered

Log and wheel are an index over the topic, and can be made anew from it. The checkpoint says how much of both is on disk:

- a clean end: wheel and log are as they were left;
- a crash: the log as far as the checkpoint says, the wheel from the log, and the topic from where the checkpoint says;
- Apache's broker was here: the log as far as it is sound, the wheel from it, and the topic from the last unit's message on;
- files that do not fit together: nothing but the topic, without what was delivered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from skyrocket.store.errors import StoreFormatError, store_error
from skyrocket.store.files import Files
from skyrocket.store.paths import StorePaths
from skyrocket.store.timers.timer_checkpoint import TimerCheckpoint, TimerCheckpointFile
from skyrocket.store.timers.timer_log import DELETES, UNIT, TimerLog, TimerUnit
from skyrocket.store.timers.timer_wheel import TimerWheel, WheelSlot


class TimerSizes(NamedTuple):
    slots: int = 7 * 24 * 3600  # of the wheel; what may lie ahead
    precision_ms: int = 1_000  # of a slot
    log_file_bytes: int = 100 * 1024 * 1024


class TimerEntry(NamedTuple):
    """A message to take in: a time within its slot, and what its unit says of it."""

    time_ms: int
    magic: int
    physical_offset: int
    size: int
    topic_hash: int


class TimerTopic(NamedTuple):
    """The queue of the timer topic."""

    min_offset: int
    max_offset: int
    queue_offset_of: Callable[[int], int | None]  # of the message at a physical offset, if it is one of the topic


@dataclass(slots=True)
class TimerCheckpointJob:
    """Makes log and wheel safe on disk, and then says so."""

    checkpoint: TimerCheckpoint
    log_position: int  # of the commit log: everything before it must be on disk first
    _sync: Callable[[], None]
    _write: Callable[[TimerCheckpoint], None]

    def run(self) -> None:
        self._sync()
        self._write(self.checkpoint)


class TimerIndex:
    def __init__(self, files: Files, paths: StorePaths, sizes: TimerSizes) -> None:
        self._files = files
        self.precision_ms = sizes.precision_ms
        self._sizes = sizes
        self.log = TimerLog(files, paths.timer_log, sizes.log_file_bytes)
        self.wheel = TimerWheel(files, paths.timer_wheel, sizes.slots, sizes.precision_ms)
        self._checkpoint_file = TimerCheckpointFile(files, paths.timer_checkpoint)
        self.read_ms = 0  # the slot that is read: those before it were delivered
        self.settled_ms = 0  # messages of slots before this were, also those that came late
        self.queue_offset = 0  # messages of the topic before it are in the log
        self.waiting = 0  # messages in the log that were not delivered
        self.delivered_until_ms = 0  # of the slot that was read before the start …
        self.delivered_before = 0  # … as far as its units lie before this in the log
        self.known_until = 0  # messages of the topic before this were taken in once, when …
        self.known_settled_ms = 0  # … slots before this were delivered
        self._changes = 0

    # --- opening

    def open(self, now_ms: int, topic: TimerTopic) -> list[str]:
        """Ready for messages. What had to be found again, in sentences."""
        checkpoint = self._checkpoint_file.read()
        try:
            sentences = self._open(checkpoint, now_ms, topic)
        except OSError as error:
            raise store_error("opening the timer log", error) from error
        self.queue_offset = min(max(self.queue_offset, topic.min_offset), topic.max_offset)
        self._write(now_ms)  # the wheel changes from now on
        return sentences

    def _open(self, checkpoint: TimerCheckpoint | None, now_ms: int, topic: TimerTopic) -> list[str]:
        if checkpoint is None:
            self.read_ms = self.settled_ms = self._slot_ms(now_ms)
            self.queue_offset = topic.min_offset
            self.log.drop()
            self.wheel.create()
            return []
        self._changes = checkpoint.changes
        self.read_ms = self._slot_ms(checkpoint.read_ms)
        self.settled_ms = checkpoint.settled_ms if checkpoint.is_ours else self.read_ms
        self.queue_offset = min(checkpoint.queue_offset, checkpoint.master_queue_offset)
        self.known_until, self.known_settled_ms = checkpoint.known_until, checkpoint.known_settled_ms
        try:
            if now_ms - self.read_ms > self._sizes.slots * self.precision_ms:
                raise StoreFormatError(f"the slot read last, {checkpoint.read_ms}, is longer ago than the wheel has slots.")
            self.log.load()
            return self._open_files(checkpoint, topic)
        except StoreFormatError as error:
            self.read_again(now_ms, topic.min_offset)
            return [f"Timers are found again from their topic: {error}"]

    def _open_files(self, checkpoint: TimerCheckpoint, topic: TimerTopic) -> list[str]:
        if checkpoint.delivered_until_ms is None:
            end, last = self._relink(self.read_ms)
            if last is None and self.queue_offset > topic.min_offset:
                raise StoreFormatError("the timer log has no units.")
            self.log.truncate(end)
            last_offset = topic.queue_offset_of(last.physical_offset) if last is not None else None
            if last_offset is not None:
                self.queue_offset = min(self.queue_offset, last_offset + 1)
            return ["The timer log was written by another broker; the timer wheel is made from it."]
        if self.log.end < checkpoint.log_end:
            raise StoreFormatError(f"the timer log has {self.log.end} bytes, and should have {checkpoint.log_end}.")
        self.delivered_until_ms, self.delivered_before = checkpoint.delivered_until_ms, checkpoint.log_end
        if checkpoint.is_clean and self.wheel.is_there():
            self.log.end = checkpoint.log_end
            self.wheel.open()
            self.waiting = checkpoint.waiting
            return []
        self.log.truncate(checkpoint.log_end)
        end, _ = self._relink(self.read_ms)
        if end < self.log.end:
            raise StoreFormatError(f"the timer log is damaged at {end}.")
        return ["The timer wheel is made from the timer log."]

    def _relink(self, read_ms: int) -> tuple[int, TimerUnit | None]:
        """A new wheel from the log. How far the log is sound, and its last unit."""
        self.wheel.create()
        self.waiting = 0
        reach_ms = self._sizes.slots * self.precision_ms
        start = self.log.start
        for segment in self.log.segments.starts[:-1]:  # in the first ones everything may have been delivered
            last_unit = self.log.last_in(segment)
            if last_unit is None or last_unit.taken_in_ms + reach_ms >= read_ms:
                break
            start = segment + self.log.segments.segment_bytes
        end, last = start, None
        for position, unit in self.log.units(start):
            if unit.time_ms >= read_ms:
                units = -1 if unit.magic & DELETES else 1
                self.waiting += units
                self.wheel.link(unit.time_ms, position, position, units)
            end, last = position + UNIT.size, unit
        return end, last

    def read_again(self, now_ms: int, min_offset: int) -> None:
        """The files are not to be relied on: everything in the topic that was not delivered is taken in again."""
        if self.queue_offset >= self.known_until:
            self.known_until, self.known_settled_ms = self.queue_offset, self.settled_ms
        self.read_ms = max(self.read_ms, self._slot_ms(now_ms) - self._sizes.slots * self.precision_ms)
        self.queue_offset = min_offset
        self.waiting = self.delivered_until_ms = self.delivered_before = 0
        self.log.end = 0
        self._write(now_ms)  # before the files go: without them, and with another broker's page, there would seem to be none
        try:
            self.log.drop()
        except OSError as error:
            raise store_error("removing the timer log", error) from error
        self.wheel.create()

    # --- messages in

    def add(self, entries: Sequence[tuple[int, int, int, int, int]], now_ms: int) -> list[int]:
        """Entries, or what they are made of. Their positions in the log. All or none: after an error nothing has changed."""
        precision_ms = self.precision_ms
        taken_in_ms = now_ms - now_ms % precision_ms
        places = self.log.places(len(entries))
        links: dict[int, list[int]] = {}  # slot -> its first and last new unit, and how many more it has
        units: list[bytes] = []
        pack = UNIT.pack
        for (time_ms, magic, physical_offset, size, topic_hash), position in zip(entries, places, strict=True):
            more = -1 if magic & DELETES else 1
            link = links.get(time_ms // precision_ms)
            if link is None:
                links[time_ms // precision_ms] = [position, position, more]
                before = self.wheel.slot(time_ms).last
            else:
                before = link[1]
                link[1] = position
                link[2] += more
            delay_ms = time_ms - taken_in_ms
            units.append(pack(UNIT.size, before, magic, taken_in_ms, delay_ms, physical_offset, size, topic_hash, 0))
        self.log.append(places, units)
        for stretch, (first, last, more) in links.items():
            self.wheel.link(stretch * precision_ms, first, last, more)
            self.waiting += more
        return places

    # --- slots out

    def slot(self, time_ms: int) -> WheelSlot:
        return self.wheel.slot(time_ms)

    def move_on(self) -> None:
        """Everything of the slot that is read was delivered."""
        self.waiting -= self.wheel.slot(self.read_ms).units
        self.read_ms += self.precision_ms
        self.settled_ms = self.read_ms
        self.delivered_before = 0

    def _slot_ms(self, time_ms: int) -> int:
        return time_ms - time_ms % self.precision_ms

    # --- what is kept

    def begin_checkpoint(
        self, now_ms: int, delivered_until_ms: int, log_position: int, *, is_clean: bool = False
    ) -> TimerCheckpointJob:
        """A job for any thread. To be run once the commit log is on disk up to `log_position`."""
        paths = self.log.take_unsynced()
        wheel = self.wheel

        def sync() -> None:
            for path in paths:
                if self._files.exists(path):  # it may have expired meanwhile
                    self._files.sync(path)
            wheel.sync()

        return TimerCheckpointJob(
            self._checkpoint(delivered_until_ms, now_ms, is_clean=is_clean), log_position, sync, self._checkpoint_file.write
        )

    def _checkpoint(self, delivered_until_ms: int, now_ms: int, *, is_clean: bool) -> TimerCheckpoint:
        self._changes += 1
        return TimerCheckpoint(
            read_ms=self.read_ms,
            log_end=self.log.end,
            queue_offset=self.queue_offset,
            master_queue_offset=self.queue_offset,
            changed_ms=now_ms,
            changes=self._changes,
            delivered_until_ms=delivered_until_ms,
            settled_ms=self.settled_ms,
            waiting=self.waiting,
            is_clean=int(is_clean),
            known_until=self.known_until if self.known_until > self.queue_offset else 0,
            known_settled_ms=self.known_settled_ms,
        )

    def _write(self, now_ms: int) -> None:
        checkpoint = self._checkpoint(max(self.read_ms, self.delivered_until_ms), now_ms, is_clean=False)
        try:
            for path in self.log.take_unsynced():
                self._files.sync(path)
            self._checkpoint_file.write(checkpoint)
        except OSError as error:
            raise store_error("writing the timers' checkpoint", error) from error

    def current_checkpoint(self, now_ms: int) -> TimerCheckpoint:
        """As it would be written, for whoever asks."""
        return self._checkpoint(self.read_ms, now_ms, is_clean=False)

    def close(self) -> None:
        self.wheel.close()
        self.log.close()
