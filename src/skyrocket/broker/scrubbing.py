"""Background scrubbing: reads closed segments of the log again, round after round, slowly, in a thread.

    every segment, oldest first → pause → again

Each piece is followed by a pause, so that the rate stays below `scrubBytesPerSecond`. Damage is logged once for each range, and
counted in the broker's runtime information:

    scrubRounds              rounds that are finished
    scrubPosition            position in the log up to which this round has come
    scrubDamagedRanges       damaged ranges in the last whole round, or in this one if those are more
    scrubLastRoundTimestamp  when the last whole round ended; 0 before that
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from skyrocket.broker.settings import BrokerSettings
from skyrocket.store.files import Files
from skyrocket.store.log.scan import DamagedRange
from skyrocket.store.log.segment_scrub import ScrubFinding, ScrubTarget, SegmentScrub
from skyrocket.store.message_store import MessageStore
from skyrocket.supervised_task import SupervisedTask

log = logging.getLogger(__name__)

PIECE_BYTES = 1024 * 1024
IDLE_MS = 60_000  # between two rounds, and while there is nothing to scrub
FINDINGS_REMEMBERED_MAX = 10_000  # so that each is logged once


class Scrubbing:
    def __init__(
        self,
        store: MessageStore,
        files: Files,
        settings: Callable[[], BrokerSettings],
        wall_ms: Callable[[], int],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        first_round_ms: int = IDLE_MS,
    ) -> None:
        """`sleep` waits for so many seconds. Tests replace it. `first_round_ms` pass before the first round."""
        self._first_round_ms = first_round_ms
        self.on_damage: Callable[[DamagedRange], None] = lambda _damaged: None  # called in every round in which it is found
        self._store = store
        self._files = files
        self._settings = settings
        self._wall_ms = wall_ms
        self._sleep = sleep
        self._task: SupervisedTask | None = None
        self._position = 0
        self._rounds = 0
        self._last_round_ms = 0
        self._damaged = 0  # in this round
        self._damaged_before = 0  # in the last whole round
        self._known: dict[ScrubFinding, None] = {}

    @property
    def findings(self) -> list[ScrubFinding]:
        """The damage that was found since the start, oldest finding first."""
        return list(self._known)

    def figures(self) -> dict[str, str]:
        """Return rows for the broker's runtime information; none before the first segment is full, as Apache's has none."""
        if not self._position:
            return {}
        return {
            "scrubRounds": str(self._rounds),
            "scrubPosition": str(self._position),
            "scrubDamagedRanges": str(max(self._damaged, self._damaged_before)),
            "scrubLastRoundTimestamp": str(self._last_round_ms),
        }

    # --- in the event loop

    def start(self) -> None:
        self._task = SupervisedTask("scrubbing", self._run)

    async def close(self) -> None:
        if self._task is not None:
            await self._task.close()

    async def _run(self) -> None:
        pause_ms = self._first_round_ms
        while True:
            await self._sleep(pause_ms / 1000)
            pause_ms = IDLE_MS
            if self._settings().scrub_bytes_per_second:
                await self.run_round()

    async def run_round(self) -> None:
        """Scrub every closed segment once."""
        self._damaged = 0
        start = -1
        while (target := self._store.next_scrub_target(start)) is not None:
            start = target.start
            try:
                await self._scrub(target)
            except OSError as error:  # it may have expired in the meantime
                if self._store.log.start <= start:
                    log.error("The log file %s cannot be scrubbed: %s.", target.path, error.strerror or error)
        self._rounds += 1
        self._damaged_before, self._last_round_ms = self._damaged, self._wall_ms()

    async def _scrub(self, target: ScrubTarget) -> None:
        scrub = await asyncio.to_thread(SegmentScrub, self._files, target)
        try:
            while not scrub.is_done and target.start >= self._store.log.start:
                self._report(await self._step(scrub))
                self._position = target.start + scrub.position
                rate = self._settings().scrub_bytes_per_second
                await self._sleep(PIECE_BYTES / rate if rate else IDLE_MS / 1000)
        finally:
            scrub.close()

    async def _step(self, scrub: SegmentScrub) -> list[ScrubFinding]:
        """Scrub a piece in a thread. Wait for the thread also when cancelled: the file must stay open until then."""
        step = asyncio.ensure_future(asyncio.to_thread(scrub.step, PIECE_BYTES))
        try:
            return await asyncio.shield(step)
        except asyncio.CancelledError:
            await asyncio.gather(step, return_exceptions=True)
            raise

    def _report(self, findings: list[ScrubFinding]) -> None:
        self._damaged += len(findings)
        for finding in findings:
            self.on_damage(finding.damaged)
            if finding not in self._known and len(self._known) < FINDINGS_REMEMBERED_MAX:
                self._known[finding] = None
                log.error("DAMAGE found by scrubbing: %s", finding)
