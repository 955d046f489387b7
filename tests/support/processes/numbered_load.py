"""Producers of our client that send numbered messages to a group whose leader fails, and what must hold in the end.

load = NumberedLoad(nameserver, TOPIC)
load.wait_for(100, group)
load.stop()
check_acknowledged(load.acknowledged, group, TOPIC, QUEUES)
check_ledgers(group)
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Mapping, Sequence

from skyrocket.client import Message, Producer, SendStatus
from skyrocket.client.errors import ClientError
from tests.support.processes.dledger_group import DLedgerGroup
from tests.support.waiting import wait_until

SENDERS = 4


class NumberedLoad:
    """Threads that send numbered messages until `stop`. A message that was not acknowledged is not sent again.

    Each thread has an event loop of its own, so that its sockets are in the network namespace of the thread that made the load.
    """

    def __init__(self, nameserver: str, topic: str, timeout_ms: int = 3_000, *, pause_s: float = 0, bytes_least: int = 0) -> None:
        """`pause_s` is between two messages of a thread; bodies are padded with blanks to `bytes_least`."""
        self._nameserver = nameserver
        self.topic = topic
        self._timeout_ms = timeout_ms
        self._pause_s = pause_s
        self._bytes_least = bytes_least
        self._ended = threading.Event()
        self.acknowledged: dict[bytes, tuple[int, int]] = {}  # queue and queue offset
        self.times: list[float] = []
        self.errors: list[str] = []
        self._threads = [threading.Thread(target=self._run, args=(number,)) for number in range(SENDERS)]
        for thread in self._threads:
            thread.start()

    def _run(self, sender: int) -> None:
        asyncio.run(self._send(sender))

    async def _send(self, sender: int) -> None:
        async with Producer(nameservers=self._nameserver, group=f"P{sender}", timeout_ms=self._timeout_ms) as producer:
            number = 0
            while not self._ended.is_set():
                number += 1
                body = (b"%d/%d" % (sender, number)).ljust(self._bytes_least)
                try:
                    receipt = await producer.send(Message(self.topic, body))
                except ClientError as error:
                    self.errors.append(str(error))
                    await asyncio.sleep(0.02)
                    continue
                if receipt.status is SendStatus.OK:
                    self.acknowledged[body] = (receipt.queue.queue_id, receipt.queue_offset)
                    self.times.append(time.monotonic())
                if self._pause_s:
                    await asyncio.sleep(self._pause_s)

    def wait_for(self, count: int, group: DLedgerGroup) -> None:
        """Wait until so many messages are acknowledged."""
        wait_until(lambda: len(self.acknowledged) > count, lambda: f"{self.errors[-3:]}\n{group.tails()}")

    def wait_for_more(self, count: int, group: DLedgerGroup) -> None:
        """Wait until so many more messages are acknowledged."""
        self.wait_for(len(self.acknowledged) + count, group)

    def wait_for_answer_after(self, after: float, group: DLedgerGroup) -> float:
        """Return when the first message was acknowledged after a moment."""
        return first_after(self.times, after, group)

    def stop(self) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()


def first_after(times: Sequence[float], after: float, group: DLedgerGroup) -> float:
    """Wait for the first of growing times that is after a moment, and return it."""
    wait_until(lambda: bool(times) and times[-1] > after, group.tails, every_s=0.01)
    return min(at for at in list(times) if at > after)


def check_acknowledged(
    acknowledged: Mapping[bytes, tuple[int, int]], group: DLedgerGroup, topic: str, queues: int
) -> dict[int, list[bytes]]:
    """Everything acknowledged is where its answer said, and each sender's messages are in order. Return the queues."""
    stored = group.read_all(group.wait_for_leader(), topic, queues)
    last: dict[tuple[bytes, int], int] = {}
    for body, (queue_id, offset) in sorted(acknowledged.items(), key=lambda item: int(item[0].rpartition(b"/")[2])):
        found = stored[queue_id][offset : offset + 1]
        assert found == [body], f"{body!r} was acknowledged at {offset} of queue {queue_id}, where {found} is"
        sender = body.rpartition(b"/")[0]
        assert last.get((sender, queue_id), -1) < offset, f"queue {queue_id} has {body!r} before what was sent earlier"
        last[sender, queue_id] = offset
    return stored


def check_ledgers(group: DLedgerGroup) -> None:
    """All ledgers become equal, entry by entry."""
    wait_until(group.is_level, group.describe_ledgers, every_s=0.2)
    ledgers = [group.entries(node) for node in group.kinds]
    assert all(ledger == ledgers[0] for ledger in ledgers[1:])
