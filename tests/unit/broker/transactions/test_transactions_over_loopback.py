"""Transactions with a running broker over loopback: the producer's answers, and the state after a restart."""

from __future__ import annotations

import time
from pathlib import Path

from skyrocket.protocol.command import Command
from skyrocket.protocol.headers import EndTransactionRequestHeader, SendMessageResponseHeader
from skyrocket.protocol.message.batch import BatchEntry, encode_batch
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from skyrocket.protocol.sysflag import TRANSACTION_COMMIT, TRANSACTION_PREPARED
from skyrocket.protocol.system_names import HALF_TOPIC, OP_TOPIC, TRANSACTION_GROUP
from tests.support.brokers.running_broker import RunningBroker, records, running

HALF = {"UNIQ_KEY": "U1", "TRAN_MSG": "true", "PGROUP": "shop"}


async def send_half(served: RunningBroker, **given: object) -> Command:
    born_ms = time.time_ns() // 1_000_000
    return await served.send(
        "orders", b"one", queue_id=2, properties=HALF, sys_flag=TRANSACTION_PREPARED, born_timestamp=born_ms, **given
    )


async def commit(served: RunningBroker, half: SendMessageResponseHeader) -> Command:
    header = EndTransactionRequestHeader(
        topic="orders",
        producer_group="shop",
        tran_state_table_offset=half.queue_offset,
        commit_log_offset=int(half.msg_id[16:], 16),
        commit_or_rollback=TRANSACTION_COMMIT,
        msg_id="U1",
    )
    return await served.ask(RequestCode.END_TRANSACTION, header)


async def test_the_answer_names_the_producers_queue_and_the_half_messages_offset(tmp_path: Path):
    async with running(tmp_path) as served:
        for offset in range(2):
            answer = await send_half(served)
            header = answer.header(SendMessageResponseHeader)
            assert (answer.code, header.queue_id, header.queue_offset) == (ResponseCode.SUCCESS, 2, offset)
            assert header.transaction_id == "U1"
        assert (await served.pull("orders", 0, queue_id=2)).code == ResponseCode.PULL_NOT_FOUND
        assert (await commit(served, header)).code == ResponseCode.SUCCESS
        (record,) = records(await served.pull("orders", 0, queue_id=2))
        assert record.body == b"one"


async def test_a_clean_stop_writes_op_messages_and_keeps_open_transactions(tmp_path: Path):
    async with running(tmp_path) as served:
        half = (await send_half(served)).header(SendMessageResponseHeader)
        await commit(served, half)
        await send_half(served)
    async with running(tmp_path) as served:
        (op,) = records(await served.pull(OP_TOPIC, 0))
        assert op.body == b"0,"
        assert len(records(await served.pull(HALF_TOPIC, 0))) == 2
        assert served.broker.offsets.query(TRANSACTION_GROUP, HALF_TOPIC, 0) <= 1, "progress has not passed the open transaction"


async def test_a_broker_that_rejects_transactions_answers_no_permission(tmp_path: Path):
    async with running(tmp_path, reject_transactions=True) as served:
        answer = await send_half(served)
        assert answer.code == ResponseCode.NO_PERMISSION
        assert "rejects transactions" in (answer.remark or "")


async def test_a_delayed_transaction_is_refused(tmp_path: Path):
    async with running(tmp_path) as served:
        for delay in ({"DELAY": "1"}, {"TIMER_DELAY_MS": "1000"}):
            answer = await served.send("orders", b"one", properties=HALF | delay)
            assert answer.code == ResponseCode.MESSAGE_ILLEGAL, delay
            assert "delayed" in (answer.remark or "")


async def test_a_batch_cannot_be_part_of_a_transaction(tmp_path: Path):
    """Apache's broker checks the system flag of a batch and ignores the property."""
    async with running(tmp_path) as served:
        body = encode_batch([BatchEntry(b"a"), BatchEntry(b"b")])
        given = {"code": RequestCode.SEND_BATCH_MESSAGE, "properties": HALF, "batch": True}
        assert (await served.send("orders", body, sys_flag=TRANSACTION_PREPARED, **given)).code == ResponseCode.MESSAGE_ILLEGAL
        answer = await served.send("orders", body, **given)
        assert answer.code == ResponseCode.SUCCESS
        assert [record.body for record in records(await served.pull("orders", 0))] == [b"a", b"b"]
