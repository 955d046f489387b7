"""A broker is killed with SIGKILL during transactions, many times: committed messages arrive, rolled-back ones never do.

One data directory serves many broker processes. Producers send half messages whose outcome is decided beforehand. They report
most outcomes, and answer the broker's checks for the others. SKYROCKET_TRANSACTION_KILLS sets the number of kills: 5, and 12
with `make crash`.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from skyrocket.net.connection import Connection
from skyrocket.net.dialer import Dialer
from skyrocket.net.errors import NetError
from skyrocket.net.router import Router
from skyrocket.protocol.bodies import HeartbeatData, ProducerData
from skyrocket.protocol.command import Command
from skyrocket.protocol.fastjson.codec import encode
from skyrocket.protocol.headers import CheckTransactionStateRequestHeader, EndTransactionRequestHeader
from skyrocket.protocol.message.record import decode_record
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from skyrocket.protocol.sysflag import TRANSACTION_COMMIT, TRANSACTION_ROLLBACK
from tests.support.apache.transaction_scenes import stored
from tests.support.processes.load import send_request
from tests.support.processes.skyrocket_process import Skyrocket

KILLS = int(os.environ.get("SKYROCKET_TRANSACTION_KILLS", "5"))
TOPIC, GROUP = "Killed", "shop"
WINDOW = 16
LOAD_S_MAX = 0.8
QUIET_S = 1.5  # several rounds
SETTLE_S_MAX = 180.0
TOLD = 0.96  # of the outcomes; a broker asks for the others, some hundred in a second
SETTINGS = {
    "flushDiskType": "SYNC_FLUSH",
    "flushConsumerOffsetInterval": 100,
    "transactionTimeOut": 200,
    "transactionCheckInterval": 200,
    "transactionCheckMax": 1_000_000,
    "transactionOpBatchInterval": 50,
    "transactionOpMsgMaxSize": 64,
}


def is_committed(name: str) -> bool:
    return int(name) % 3 != 0


@dataclass(slots=True)
class Shop:
    """Producers of transactions."""

    chance: random.Random
    numbers: count = field(default_factory=count)  # type: ignore[type-arg]
    acknowledged: set[str] = field(default_factory=set)
    questions: int = 0

    async def run(self, address: str) -> None:
        """Until the connection ends."""
        router = Router()
        router.add(RequestCode.CHECK_TRANSACTION_STATE, self._answer_check)
        dialer = Dialer(router)
        try:
            connection = await dialer.connection(address)
            data = HeartbeatData(client_id="shop-1", producer_data_set=[ProducerData(group_name=GROUP)])
            await connection.request(Command(RequestCode.HEART_BEAT, body=encode(data)), 10_000)
            await asyncio.gather(*[self._transact(connection) for _ in range(WINDOW)])
        except NetError:
            pass
        finally:
            await dialer.close()

    async def settle(self, address: str) -> None:
        """Only answer checks, until the broker sends no more."""
        router = Router()
        router.add(RequestCode.CHECK_TRANSACTION_STATE, self._answer_check)
        dialer = Dialer(router)
        data = HeartbeatData(client_id="shop-2", producer_data_set=[ProducerData(group_name=GROUP)])
        await dialer.request(address, Command(RequestCode.HEART_BEAT, body=encode(data)), 10_000)
        deadline = time.monotonic() + SETTLE_S_MAX
        quiet_since, questions = time.monotonic(), -1
        while time.monotonic() - quiet_since < QUIET_S:
            assert time.monotonic() < deadline, "questions do not end"
            if questions != self.questions:
                quiet_since, questions = time.monotonic(), self.questions
            await asyncio.sleep(0.05)
        await dialer.close()

    async def _transact(self, connection: Connection) -> None:
        while True:
            name = str(next(self.numbers))
            properties = {"UNIQ_KEY": f"U{name}", "TRAN_MSG": "true", "PGROUP": GROUP}
            born_ms = time.time_ns() // 1_000_000
            half = send_request(TOPIC, name.encode(), properties=properties, sys_flag=4, born_timestamp=born_ms)
            answer = await connection.request(half, 10_000)
            assert answer.code == ResponseCode.SUCCESS, answer.remark
            self.acknowledged.add(name)
            if self.chance.random() < TOLD:
                offset = int(answer.fields["msgId"][16:], 16)
                self._end(connection, name, int(answer.fields["queueOffset"]), offset, is_asked=False)

    def _answer_check(self, command: Command, connection: Connection) -> None:
        header = command.header(CheckTransactionStateRequestHeader)
        name = decode_record(command.body).body.decode()
        self.questions += 1
        self._end(connection, name, header.tran_state_table_offset, header.commit_log_offset, is_asked=True)

    def _end(self, connection: Connection, name: str, queue_offset: int, offset: int, *, is_asked: bool) -> None:
        header = EndTransactionRequestHeader(
            topic=TOPIC,
            producer_group=GROUP,
            tran_state_table_offset=queue_offset,
            commit_log_offset=offset,
            commit_or_rollback=TRANSACTION_COMMIT if is_committed(name) else TRANSACTION_ROLLBACK,
            from_transaction_check=is_asked,
            msg_id=name,
        )
        connection.oneway(Command(RequestCode.END_TRANSACTION, fields=header.to_fields()))


def test_transactions_end_as_their_producer_decided_despite_killed_brokers(tmp_path: Path):
    chance = random.Random(5)
    shop = Shop(chance)
    with Skyrocket(tmp_path, SETTINGS) as broker:
        for _ in range(KILLS):
            asyncio.run(_live_and_die(broker, shop, chance.uniform(0.05, LOAD_S_MAX)))
            broker.start()
        asyncio.run(shop.settle(broker.address))
        delivered = [record.body.decode() for record in stored(broker.address, TOPIC)]
        broker.stop()
        assert broker.complaints() == []
    lost = {name for name in shop.acknowledged if is_committed(name)} - set(delivered)
    assert not lost, f"{len(lost)} of {len(shop.acknowledged)} are lost: {sorted(lost)[:10]}"
    seen = {name for name in delivered if not is_committed(name)}
    assert not seen, f"rolled back, and seen: {sorted(seen)[:10]}"
    assert len(shop.acknowledged) > KILLS, "hardly anything was sent"
    assert shop.questions, "nobody was asked"


async def _live_and_die(broker: Skyrocket, shop: Shop, load_s: float) -> None:
    running = asyncio.ensure_future(shop.run(broker.address))
    done, _ = await asyncio.wait([running], timeout=load_s)
    for task in done:
        task.result()
    assert not done, f"the broker ended the connection by itself:\n{broker.log_tail()}"
    broker.kill()
    with suppress(NetError):
        await running
