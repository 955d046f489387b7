"""Index of the messages in the timer topic: which of them wait, and in which slot of time.

    rmq_sys_wheel_timer, queue 0      ──────────▶ queue_offset                 the timer topic: the messages themselves
    timer log                         ───────────────▶ end                     one unit for each message before queue_offset
    timer wheel                       slot → its last unit                     can be rebuilt from the timer log
    progress                          read_ms: slots before it were delivered

Timer log and wheel can be rebuilt from the topic. The checkpoint says how much of both is on disk. When the index is opened:

- after a clean stop, wheel and log are used as they are;
- after a crash, the log counts up to the checkpoint, the wheel is rebuilt from it, and the topic is read on from the checkpoint;
- after Apache's broker, the log counts as far as it is sound, the wheel is rebuilt from it, and the topic is read on from the
  message of the last unit;
- if the files do not fit together, the whole topic is read again, without the messages that were delivered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from skyrocket.store.errors import StoreFormatError, UnreadableError, store_error
from skyrocket.store.files import Files
from skyrocket.store.paths import StorePaths
from skyrocket.store.timers.timer_checkpoint import TimerCheckpoint, TimerCheckpointFile
from skyrocket.store.timers.timer_log import DELETES, UNIT, TimerLog, TimerUnit
from skyrocket.store.timers.timer_wheel import TimerWheel, WheelSlot


class TimerSizes(NamedTuple):
    slots: int = 7 * 24 * 3600  # of the wheel: the longest delay
    precision_ms: int = 1_000  # of a slot
    log_file_bytes: int = 100 * 1024 * 1024


class TimerTopic(NamedTuple):
    """The queue of the timer topic."""

    min_offset: int
    max_offset: int
    queue_offset_of: Callable[
        [int], int | None
    ]  # returns the queue offset of the message at a physical offset, if it is in the topic


@dataclass(slots=True)
class TimerCheckpointJob:
    """Syncs timer log and wheel, then writes the checkpoint."""

    checkpoint: TimerCheckpoint
    log_position: int  # the commit log must be on disk up to here first
    _sync: Callable[[], None]
    _write: Callable[[TimerCheckpoint], None]
    put_back: Callable[[], None]  # for a job that could not open a file: the next job syncs what this one did not
    is_synced: bool = False  # only the checkpoint itself was not written, if the job failed then

    def run(self) -> None:
        """Raise NotOpenedError when a file could not be opened, and any other OSError when a sync or the write failed."""
        self._sync()
        self.is_synced = True
        self._write(self.checkpoint)


class TimerIndex:
    def __init__(self, files: Files, paths: StorePaths, sizes: TimerSizes) -> None:
        self._files = files
        self.precision_ms = sizes.precision_ms
        self._sizes = sizes
        self.log = TimerLog(files, paths.timer_log, sizes.log_file_bytes)
        self.wheel = TimerWheel(files, paths.timer_wheel, sizes.slots, sizes.precision_ms)
        self._checkpoint_file = TimerCheckpointFile(files, paths.timer_checkpoint)
        self.read_ms = 0  # the slot that is read: earlier slots were delivered
        self.settled_ms = 0  # all messages of earlier slots were delivered, also late ones
        self.queue_offset = 0  # messages of the topic before this are in the timer log
        self.waiting = 0  # messages in the timer log that were not delivered yet
        self.delivered_until_ms = 0  # messages of the slot that was read when the broker stopped were delivered until here …
        self.delivered_before = 0  # … if their units lie before this position of the timer log
        self.known_until = 0  # messages of the topic before this were taken in before the topic was read again, when …
        self.known_settled_ms = 0  # … slots before this had been delivered
        self._changes = 0

    # --- opening

    def opens_alone(self) -> bool:
        """Whether `open` needs nothing of the topic's messages, so that any thread may call it."""
        checkpoint = self._checkpoint_file.read()
        return checkpoint is None or checkpoint.delivered_until_ms is not None

    def open(self, now_ms: int, topic: TimerTopic) -> list[str]:
        """Open or rebuild timer log and wheel. Return what had to be rebuilt, in sentences."""
        checkpoint = self._checkpoint_file.read()
        try:
            sentences = self._open(checkpoint, now_ms, topic)
        except OSError as error:
            raise store_error("opening the timer log", error) from error
        self.queue_offset = min(max(self.queue_offset, topic.min_offset), topic.max_offset)
        if checkpoint is None or checkpoint.is_clean or not checkpoint.is_ours:
            self._write(now_ms)  # the wheel changes from here on, so the checkpoint must no longer say that the stop was clean
        return sentences

    def _open(self, checkpoint: TimerCheckpoint | None, now_ms: int, topic: TimerTopic) -> list[str]:
        if checkpoint is None:
            self.read_ms = self.settled_ms = self._slot_ms(now_ms)
            self.queue_offset = topic.min_offset
            self.log.drop()
            self.wheel.create()
            self.log.prepare()
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
        except (StoreFormatError, UnreadableError) as error:
            self.read_again(now_ms, topic.min_offset)
            return [f"Timers are rebuilt from their topic: {error}"]

    def _open_files(self, checkpoint: TimerCheckpoint, topic: TimerTopic) -> list[str]:
        if checkpoint.delivered_until_ms is None:
            end, last = self._relink(self.read_ms)
            if last is None and self.queue_offset > topic.min_offset:
                raise StoreFormatError("the timer log has no units.")
            self.log.truncate(end)
            last_offset = topic.queue_offset_of(last.physical_offset) if last is not None else None
            if last_offset is not None:
                self.queue_offset = min(self.queue_offset, last_offset + 1)
            return ["Another broker has written the timer log; the timer wheel is rebuilt from it."]
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
        return ["The timer wheel is rebuilt from the timer log."]

    def _relink(self, read_ms: int) -> tuple[int, TimerUnit | None]:
        """Rebuild the wheel from the log. Return how far the log is sound, and its last unit."""
        self.wheel.create()
        self.waiting = 0
        reach_ms = self._sizes.slots * self.precision_ms
        start = self.log.start
        for segment in self.log.segments.starts[:-1]:  # everything in the first segments may have been delivered
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
        """Discard timer log and wheel. Every message of the topic that was not delivered is taken in again."""
        if self.queue_offset >= self.known_until:
            self.known_until, self.known_settled_ms = self.queue_offset, self.settled_ms
        self.read_ms = max(self.read_ms, self._slot_ms(now_ms) - self._sizes.slots * self.precision_ms)
        self.queue_offset = min_offset
        self.waiting = self.delivered_until_ms = self.delivered_before = 0
        self.log.end = 0
        self._write(now_ms)  # before the files are deleted: without files, another broker's page would mean that nothing waits
        try:
            self.log.drop()
        except OSError as error:
            raise store_error("removing the timer log", error) from error
        self.wheel.create()
        try:
            self.log.prepare()
        except OSError as error:
            raise store_error("creating the timer log", error) from error

    def follow(self, master: TimerCheckpoint, now_ms: int) -> TimerCheckpointJob:
        """Take the master's progress, which a slave copies. Return the job that saves it.

        A slave has no timer log. When it becomes master, it takes in the whole topic, without what its master had delivered:
        messages that the master knew, of slots that it had read.
        """
        self.read_ms = self.settled_ms = self._slot_ms(master.read_ms)
        self.known_until, self.known_settled_ms = master.master_queue_offset, master.read_ms
        self.queue_offset = self.waiting = self.delivered_until_ms = self.delivered_before = self.log.end = 0
        checkpoint = self._checkpoint(0, now_ms, is_clean=False)
        return TimerCheckpointJob(checkpoint, 0, _do_nothing, self._checkpoint_file.write, _do_nothing)

    # --- messages in

    def add(self, entries: Sequence[tuple[int, int, int, int, int]], now_ms: int) -> list[int]:
        """Take in messages, all or none. Return the positions of their units.

        An entry has a time within its slot, and four fields of its unit: magic, physical offset, size, hash of the topic.
        """
        precision_ms = self.precision_ms
        taken_in_ms = now_ms - now_ms % precision_ms
        places = self.log.places(len(entries))
        links: dict[int, list[int]] = {}  # slot -> first and last new unit, and the change of its count
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
        for slot, (first, last, more) in links.items():
            self.wheel.link(slot * precision_ms, first, last, more)
            self.waiting += more
        return places

    # --- slots out

    def slot(self, time_ms: int) -> WheelSlot:
        return self.wheel.slot(time_ms)

    def move_on(self) -> None:
        """Move to the next slot: everything in the current one was delivered."""
        self.waiting -= self.wheel.slot(self.read_ms).units
        self.read_ms += self.precision_ms
        self.settled_ms = self.read_ms
        self.delivered_before = 0

    def _slot_ms(self, time_ms: int) -> int:
        return time_ms - time_ms % self.precision_ms

    # --- checkpoints

    def begin_checkpoint(
        self, now_ms: int, delivered_until_ms: int, log_position: int, *, is_clean: bool = False
    ) -> TimerCheckpointJob:
        """Return a checkpoint job for any thread. Run it once the commit log is on disk up to `log_position`."""
        unsynced, wheel = self.log.take_unsynced(), self.wheel

        def sync() -> None:
            unsynced.sync()
            wheel.sync()

        return TimerCheckpointJob(
            self._checkpoint(delivered_until_ms, now_ms, is_clean=is_clean),
            log_position,
            sync,
            self._checkpoint_file.write,
            lambda: self.log.put_back(unsynced),
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
        checkpoint = self._checkpoint(self.delivered_until_ms, now_ms, is_clean=False)
        try:
            self.log.take_unsynced().sync()
            self._checkpoint_file.write(checkpoint)
        except OSError as error:
            raise store_error("writing the timer checkpoint", error) from error

    def current_checkpoint(self, now_ms: int) -> TimerCheckpoint:
        """Return the checkpoint as it would be written now."""
        return self._checkpoint(self.read_ms, now_ms, is_clean=False)

    def close(self) -> None:
        self.wheel.close()
        self.log.close()


def _do_nothing() -> None:
    """A slave has no timer log that a checkpoint must wait for."""
