"""Repairs damaged entries of this node with those of the other nodes, as `repair_plan` decides.

One round is under way at a time: a GET (50002) to every other node, then one job in a thread, which writes and syncs. A pause
behind each keeps the rate below BYTES_PER_SECOND, so that a lost file of a gigabyte takes half a minute, and the group goes on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

from skyrocket.broker.dledger.repair_plan import BYTES_MAX, Answer, NoEntry, RepairAction, RepairPlan, RepairVerdict
from skyrocket.net.dialer import Dialer
from skyrocket.net.errors import NetError
from skyrocket.protocol.bodies.dledger import GetEntriesRequest, GetEntriesResponse, LedgerCode
from skyrocket.protocol.command import Command
from skyrocket.protocol.errors import ProtocolError
from skyrocket.protocol.fastjson.codec import decode, encode
from skyrocket.protocol.ledger_push import encode_entry
from skyrocket.protocol.requests import RequestCode
from skyrocket.raft.config import GroupConfig
from skyrocket.store.errors import StoreError
from skyrocket.store.ledger.index_ranges import IndexRange, IndexRanges
from skyrocket.store.ledger.ledger_store import LedgerStore
from skyrocket.supervised_task import SupervisedTask

log = logging.getLogger(__name__)

BYTES_PER_SECOND: Final = 32 * 1024 * 1024
REQUEST_MS: Final = 3_000
LOOK_MS: Final = 1_000  # between two looks while something is damaged: more may be confirmed, or nodes may be back
_NO_ENTRY: Final[dict[int, NoEntry]] = {LedgerCode.INDEX_OUT_OF_RANGE: NoEntry.MISSING, LedgerCode.NOT_LEADER: NoEntry.NOT_LEADER}


class EntryRepairer:
    def __init__(
        self,
        config: GroupConfig,
        addresses: Mapping[str, str],
        store: LedgerStore,
        dialer: Dialer,
        now_ms: Callable[[], float],
        *,
        leads: Callable[[], bool],
        hand_over: Callable[[tuple[str, ...]], None],
        on_change: Callable[[], None],
    ) -> None:
        """`hand_over` makes one of the nodes lead, `on_change` is called when fewer entries are damaged."""
        self._config = config
        self._addresses = addresses
        self._store = store
        self._dialer = dialer
        self._now_ms = now_ms
        self._leads = leads
        self._hand_over = hand_over
        self._on_change = on_change
        self._plan = RepairPlan(config.others)
        self._more = asyncio.Event()
        self._repaired = IndexRanges()  # since it was last said
        self._repaired_bytes = 0
        self._sources: set[str] = set()
        self._is_said = False  # that something is damaged
        self.repaired_count = 0  # since the start
        self._task: SupervisedTask | None = None

    def start(self) -> None:
        self._store.repair.on_damage = self._more.set
        self._more.set()
        self._task = SupervisedTask("repair of damaged entries", self._run)

    async def close(self) -> None:
        if self._task is not None:
            await self._task.close()

    @property
    def may_lead(self) -> bool:
        """Whether a node that was elected may take messages: what is damaged was repaired, or cannot be."""
        return not self._store.repair.damaged or self._plan.may_lead(self._awaited())

    def figures(self) -> dict[str, str]:
        """Return rows for the broker's runtime information; none while the log is whole and always was."""
        repair = self._store.repair
        if not repair.damaged and not self.repaired_count:
            return {}
        return {
            "dledgerDamagedEntries": str(len(repair.damaged)),
            "dledgerRepairedEntries": str(self.repaired_count),
            "dledgerLostEntries": str(len(repair.given_up)),
        }

    def _awaited(self) -> list[IndexRange]:
        repair = self._store.repair
        return [each for each in repair.damaged.ranges if not repair.given_up.covers(each.first, each.last)]

    # --- rounds

    async def _run(self) -> None:
        while True:
            await self._more.wait()
            self._more.clear()
            while self._store.repair.damaged:
                pause_ms = await self.run_round()
                await asyncio.sleep(pause_ms / 1000)
            self._report_repaired()
            self._is_said = False
            self._on_change()

    async def run_round(self) -> float:
        """Ask for what is due, and write it. Return how many milliseconds to wait before the next round."""
        repair = self._store.repair
        repair.forget_before(self._store.begin_index)
        damaged = repair.damaged.ranges
        asked = self._plan.next_round(damaged, self._store.committed_index, self._now_ms())
        if asked is None:
            self._report_repaired()
            return min(LOOK_MS, self._plan.pause_ms(damaged, self._now_ms()))
        if not self._is_said:
            self._is_said = True
            log.error("DAMAGE: entries %s of the log are damaged here. The other nodes are asked for them.", repair.damaged)
        peers = self._config.others
        answers = dict(zip(peers, await asyncio.gather(*(self._ask(peer, asked) for peer in peers)), strict=True))
        verdict = self._plan.conclude(asked, answers, repair.fits_checksum, self._now_ms(), leads=self._leads())
        if verdict.action is RepairAction.RESTORE:
            return await self._restore(asked, verdict)
        self._give_up(asked, verdict)
        return 0

    async def _ask(self, peer: str, asked: IndexRange) -> Answer:
        config = self._config
        request = GetEntriesRequest(
            group=config.group, local_id=config.self_id, remote_id=peer, begin_index=asked.first, max_size=BYTES_MAX
        )
        try:
            async with asyncio.timeout(REQUEST_MS / 1000):
                command = Command(RequestCode.DLEDGER_GET, body=encode(request))
                answer = await self._dialer.request(self._addresses[peer], command, REQUEST_MS)
            response = decode(answer.body, GetEntriesResponse)
        except (NetError, ProtocolError, TimeoutError):
            return NoEntry.SILENT
        if response.code != LedgerCode.SUCCESS:
            return _NO_ENTRY.get(response.code, NoEntry.SILENT)
        return [encode_entry(entry) for entry in response.entries or []] or NoEntry.MISSING

    async def _restore(self, asked: IndexRange, verdict: RepairVerdict) -> float:
        """Write entries in a thread. Return the pause behind them."""
        repair = self._store.repair
        if verdict.sentence:
            log.error(verdict.sentence)
        try:
            job = repair.begin_restore(verdict.entries)
            written = asyncio.ensure_future(asyncio.to_thread(job.run))
            try:
                await asyncio.shield(written)
            except asyncio.CancelledError:
                with suppress(OSError):
                    await written
                raise
            repair.finish_restore(job)
        except (StoreError, OSError) as error:
            self._give_up(asked, self._plan.refuse(asked, str(error), self._now_ms()))
            return 0
        self.repaired_count += job.last - job.first + 1
        self._repaired.add(job.first, job.last)
        self._repaired_bytes += job.size_bytes
        self._sources.update(verdict.sources)
        return 1000 * job.size_bytes / BYTES_PER_SECOND

    def _give_up(self, asked: IndexRange, verdict: RepairVerdict) -> None:
        """Say why the entries stay damaged, and let readers skip them if nobody has them."""
        if verdict.sentence:
            log.log(
                logging.WARNING if verdict.action in (RepairAction.WAIT, RepairAction.HAND_OVER) else logging.ERROR,
                verdict.sentence,
            )
        if verdict.action in (RepairAction.LOST, RepairAction.DISPUTED):
            self._store.repair.give_up(asked.first, asked.first)
        if verdict.action is RepairAction.HAND_OVER:
            self._hand_over(verdict.hand_over_to)
        self._on_change()

    def _report_repaired(self) -> None:
        if self._repaired:
            log.warning(
                "Repaired: entries %s were damaged here, and are written again, from %s (%d entries, %d bytes).",
                self._repaired,
                " and ".join(sorted(self._sources)),
                len(self._repaired),
                self._repaired_bytes,
            )
            self._repaired.clear()
            self._repaired_bytes = 0
            self._sources.clear()
