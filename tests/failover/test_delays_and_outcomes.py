"""Delayed messages, timers and transactions of which the leader is killed before they are due or decided.

Each delayed message is delivered at least once, and none before its time. A committed message is delivered, a rolled-back one
never; what the producer left undecided is asked for by the next leader.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from skyrocket.client import Message, Outcome, Received, SendStatus, TransactionProducer
from skyrocket.client.errors import ClientError
from skyrocket.protocol.message.record import Record
from tests.failover.limits import ROUNDS
from tests.support import failover_report as report
from tests.support.processes.dledger_group import DLedgerGroup
from tests.support.waiting import wait_until

TOPIC = "Later"
QUEUES = 2
KINDS = ("level", "timer", "committed", "rolled back", "undecided: commit", "undecided: roll back")
PAUSE_S = 0.01
LEVEL, LEVEL_S = 2, 5  # of the broker's default levels
TIMER_S = 6
SETTINGS = {
    "defaultTopicQueueNums": QUEUES,
    "timerPrecisionMs": 100,
    "transactionTimeOut": 1_000,
    "transactionCheckInterval": 500,
    "transactionCheckMax": 1_000,
}


def is_delivered(kind: str) -> bool:
    return "roll" not in kind


@dataclass
class Shop:
    """A producer that sends one message of each kind after another, until it is stopped. It then still answers checks."""

    nameserver: str
    acknowledged: dict[bytes, int] = field(default_factory=dict)  # not before this time, in ms since 1970
    checks: int = 0
    errors: list[str] = field(default_factory=list)
    _is_sending: bool = True
    _is_over: bool = False

    def start(self) -> threading.Thread:
        thread = threading.Thread(target=lambda: asyncio.run(self._run()))
        thread.start()
        return thread

    def stop_sending(self) -> None:
        self._is_sending = False

    def close(self) -> None:
        self._is_sending, self._is_over = False, True

    async def _run(self) -> None:
        number = 0
        async with TransactionProducer(self.nameserver, group="shop", check=self._check, timeout_ms=2_000) as producer:
            while not self._is_over:
                number += 1
                kind = KINDS[number % len(KINDS)]
                if self._is_sending:
                    try:
                        await self._send(producer, kind, f"{kind}/{number}".encode())
                    except ClientError as error:
                        self.errors.append(str(error))
                await asyncio.sleep(PAUSE_S)

    async def _send(self, producer: TransactionProducer, kind: str, body: bytes) -> None:
        before_ms = time.time_ns() // 1_000_000
        if kind in ("level", "timer"):
            delay = {"delay_level": LEVEL} if kind == "level" else {"deliver_in": timedelta(seconds=TIMER_S)}
            receipt = await producer.send(Message(TOPIC, body, **delay))  # type: ignore[arg-type]
            before_ms += 1_000 * (LEVEL_S if kind == "level" else TIMER_S)
        else:
            outcomes = {"committed": Outcome.COMMIT, "rolled back": Outcome.ROLLBACK}
            receipt, _ = await producer.transaction(Message(TOPIC, body), lambda *_: outcomes.get(kind, Outcome.UNKNOWN))
        if receipt.status is SendStatus.OK:
            self.acknowledged[body] = before_ms

    def _check(self, message: Received) -> Outcome:
        self.checks += 1
        return Outcome.COMMIT if is_delivered(message.body.decode()) else Outcome.ROLLBACK

    def wait_for_more(self, count: int, describe: Callable[[], str]) -> None:
        enough = len(self.acknowledged) + count
        wait_until(lambda: len(self.acknowledged) >= enough, lambda: f"{self.errors[-3:]}\n{describe()}")


def test_what_is_due_or_decided_after_a_fail_over_arrives_and_nothing_early(tmp_path: Path, nameserver: str):
    with DLedgerGroup(tmp_path / "group", nameserver, settings=SETTINGS) as group:
        group.wait_for_leader()
        shop = Shop(nameserver)
        thread = shop.start()
        try:
            for _ in range(ROUNDS):
                shop.wait_for_more(60, group.tails)
                leader = group.wait_for_leader()
                group.kill(leader)
                shop.wait_for_more(30, group.tails)  # the next leader delivers and asks, under load
                group.start(leader)
            shop.stop_sending()
            wanted = {body for body in shop.acknowledged if is_delivered(body.decode())}

            def missing() -> list[bytes]:
                return sorted(wanted - {record.body for record in delivered(group)})

            wait_until(lambda: not missing(), lambda: f"{missing()[:10]} of {len(wanted)} are lost\n{group.tails()}", every_s=0.5)
        finally:
            shop.close()
            thread.join()
        found = delivered(group)
    early = {
        record.body: shop.acknowledged[record.body] - record.store_timestamp
        for record in found
        if record.store_timestamp < shop.acknowledged.get(record.body, 0)
    }
    assert not early, f"delivered so many ms too early: {early}"
    assert not [record.body for record in found if not is_delivered(record.body.decode())], "rolled back, and delivered"
    assert shop.checks, "nobody was asked"
    text = f"{ROUNDS} fail-overs, {len(shop.acknowledged)} acknowledged, {shop.checks} checks, {len(found) - len(wanted)} more"
    report.add("delays, timers, transactions", f"{text} delivered, none lost, early or rolled back")


def delivered(group: DLedgerGroup) -> list[Record]:
    return [record for found in group.read_records(group.wait_for_leader(), TOPIC, QUEUES).values() for record in found]
