"""Pulls: what they find, their responses when they find nothing, and long polling."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from skyrocket.broker.pull.handler import PULLS_PER_SLICE, RECHECK_MS
from skyrocket.protocol.command import Command, decode_command, encode_command
from skyrocket.protocol.frame import FrameSplitter, Serialization
from skyrocket.protocol.headers import PullMessageResponseHeader
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from skyrocket.protocol.sysflag import PULL_COMMIT_OFFSET, PULL_SUBSCRIPTION, PULL_SUSPEND
from skyrocket.store.read.queue_run import RECORDS_PER_READ_MAX
from tests.client.servers import until
from tests.support.brokers.pull_parts import a_pull
from tests.support.brokers.running_broker import RunningBroker, pull_header, records, running, send_header
from tests.support.brokers.send_parts import connected


async def five(served: RunningBroker) -> None:
    """Send messages 0 to 4 to queue 0, with alternating tags red and blue."""
    for number in range(5):
        await served.send("orders", b"%d" % number, properties={"TAGS": "red" if number % 2 == 0 else "blue"})


@pytest.mark.parametrize("serialization", list(Serialization))
async def test_messages_are_found_from_an_offset_on(tmp_path: Path, serialization: Serialization):
    async with running(tmp_path) as served:
        await five(served)
        response = await served.pull("orders", 2, serialization=serialization)
        header = response.header(PullMessageResponseHeader)
        assert (response.code, response.remark) == (0, "FOUND")
        assert [r.body for r in records(response)] == [b"2", b"3", b"4"]
        assert (header.next_begin_offset, header.min_offset, header.max_offset, header.suggest_which_broker_id) == (5, 0, 5, 0)


async def test_only_messages_with_the_wanted_tags_are_found(tmp_path: Path):
    async with running(tmp_path) as served:
        await five(served)
        assert [r.body for r in records(await served.pull("orders", 0, tags="blue"))] == [b"1", b"3"]
        assert len(records(await served.pull("orders", 0, tags="blue || red"))) == 5
        response = await served.pull("orders", 0, tags="green")
        assert response.code == ResponseCode.PULL_RETRY_IMMEDIATELY
        assert response.header(PullMessageResponseHeader).next_begin_offset == 5


async def test_count_and_bytes_limit_a_response(tmp_path: Path):
    async with running(tmp_path) as served:
        for _ in range(5):
            await served.send("orders", bytes(1000))
        assert len(records(await served.pull("orders", 0, max_msg_nums=2))) == 2
        assert len(records(await served.pull("orders", 0, max_msg_bytes=2_500))) == 2
        assert len(records(await served.pull("orders", 0, max_msg_bytes=1))) == 1


@pytest.mark.parametrize(
    ("settings", "given", "found"),
    [
        ({}, {"max_msg_nums": 1024}, 32),
        ({}, {"max_msg_nums": 1024, "max_msg_bytes": 4 << 20}, 32),
        ({}, {"max_msg_nums": 1024, "response_bytes_max": 4 << 20}, 50),
        ({}, {"max_msg_nums": 40, "response_bytes_max": 4 << 20}, 40),
        ({}, {"max_msg_nums": 1024, "response_bytes_max": 4 << 20, "max_msg_bytes": 25_000}, 21),
        ({"pull_bytes_max": 2_000}, {"max_msg_nums": 1024, "response_bytes_max": 25_000}, 21),
        ({"pull_bytes_max": 25_000}, {"max_msg_nums": 1024, "response_bytes_max": 1}, 21),
        ({"pull_bytes_max": 25_000}, {"max_msg_nums": 1024, "response_bytes_max": -1}, 21),
    ],
)
@pytest.mark.parametrize("serialization", list(Serialization))
async def test_client_that_can_take_a_large_response_gets_it(
    tmp_path: Path, serialization: Serialization, settings: dict[str, int], given: dict[str, int], found: int
):
    async with running(tmp_path, **settings) as served:
        for _ in range(50):
            await served.send("orders", bytes(1000))
        assert len(records(await served.pull("orders", 0, serialization=serialization, **given))) == found


@pytest.mark.parametrize(
    ("topic", "offset", "code", "following"),
    [
        ("orders", 5, ResponseCode.PULL_NOT_FOUND, 5),
        ("orders", 6, ResponseCode.PULL_OFFSET_MOVED, 5),
        ("orders", -1, ResponseCode.PULL_OFFSET_MOVED, 0),
        ("empty", 0, ResponseCode.PULL_NOT_FOUND, 0),
        ("empty", 7, ResponseCode.PULL_OFFSET_MOVED, 0),
    ],
)
async def test_an_offset_outside_of_the_queue_is_corrected(
    tmp_path: Path, topic: str, offset: int, code: ResponseCode, following: int
):
    async with running(tmp_path) as served:
        await five(served)
        await served.send("empty", b"", queue_id=3)
        response = await served.pull(topic, offset)
        assert (response.code, response.header(PullMessageResponseHeader).next_begin_offset) == (code, following)


async def test_a_waiting_pull_is_answered_by_the_message_it_waits_for(tmp_path: Path):
    async with running(tmp_path) as served:
        await five(served)
        waiting = asyncio.ensure_future(served.pull("orders", 5, hold_ms=60_000))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        await served.send("orders", b"5")
        assert [r.body for r in records(await waiting)] == [b"5"]


async def test_message_with_another_tag_does_not_answer_a_waiting_pull(tmp_path: Path):
    async with running(tmp_path) as served:
        await five(served)
        waiting = asyncio.ensure_future(served.pull("orders", 5, tags="green", hold_ms=60_000))
        await asyncio.sleep(0.05)
        await served.send("orders", b"5", properties={"TAGS": "red"})
        await asyncio.sleep(0.05)
        assert not waiting.done()
        await served.send("orders", b"6", properties={"TAGS": "green"})
        assert [r.body for r in records(await waiting)] == [b"6"]


async def test_pull_does_not_wait_while_unread_messages_remain(tmp_path: Path):
    async with running(tmp_path) as served:
        for _ in range(4):  # more than one pull reads
            red = [served.send("orders", b"x", properties={"TAGS": "red"}) for _ in range(RECORDS_PER_READ_MAX // 3)]
            await asyncio.gather(*red)
        await served.send("orders", b"last", properties={"TAGS": "green"})
        response, offset = await served.pull("orders", 0, tags="green", hold_ms=60_000), 0
        while response.code == ResponseCode.PULL_RETRY_IMMEDIATELY:
            assert response.header(PullMessageResponseHeader).next_begin_offset > offset
            offset = response.header(PullMessageResponseHeader).next_begin_offset
            response = await served.pull("orders", offset, tags="green", hold_ms=60_000)
        assert [r.body for r in records(response)] == [b"last"]
        assert offset > 0


async def test_waiting_pull_restarts_when_its_group_changes_its_tags(tmp_path: Path):
    async with running(tmp_path) as served:
        await five(served)
        await served.heartbeat("consumers", orders="green")
        waiting = asyncio.ensure_future(served.pull("orders", 5, hold_ms=60_000, sys_flag=PULL_SUSPEND))
        await asyncio.sleep(0.05)
        await served.send("orders", b"5", properties={"TAGS": "red"})  # does not pass the filter
        await served.heartbeat("consumers", version=2, orders="green || red")
        await asyncio.sleep(0.05)
        assert not waiting.done()
        await served.send("orders", b"6", properties={"TAGS": "red"})
        answer = await waiting
        assert (answer.code, answer.body) == (ResponseCode.PULL_RETRY_IMMEDIATELY, b"")
        assert answer.header(PullMessageResponseHeader).next_begin_offset == 5
        assert [r.body for r in records(await served.pull("orders", 5, sys_flag=0))] == [b"5", b"6"]


async def test_waiting_pull_of_a_stopped_group_gets_no_messages(tmp_path: Path):
    async with running(tmp_path) as served:
        await five(served)
        waiting = asyncio.ensure_future(served.pull("orders", 5, hold_ms=60_000))
        while not served.broker.pull.waiting:  # noqa: ASYNC110 — it waits elsewhere
            await asyncio.sleep(0.01)
        served.broker.groups.stop("consumers")
        await served.send("orders", b"meanwhile")
        answer = await waiting
        assert answer.code == ResponseCode.NO_PERMISSION
        assert answer.body == b""
        config = served.broker.groups.get("consumers")
        assert config is not None
        served.broker.groups.put(replace(config, consume_enable=True))
        assert [record.body for record in records(await served.pull("orders", 5))] == [b"meanwhile"]


async def test_expired_pull_gets_the_next_offset(tmp_path: Path):
    async with running(tmp_path) as served:
        await five(served)
        nothing = await served.pull("orders", 5, hold_ms=50)
        assert nothing.code == ResponseCode.PULL_NOT_FOUND
        waiting = asyncio.ensure_future(served.pull("orders", 5, tags="green", hold_ms=200))
        await asyncio.sleep(0.05)
        await served.send("orders", b"5", properties={"TAGS": "red"})
        assert (await waiting).header(PullMessageResponseHeader).next_begin_offset == 6


async def test_waiting_pulls_are_rechecked_after_a_lost_wake_up(tmp_path: Path):
    async with running(tmp_path) as served:
        await five(served)
        waiting = asyncio.ensure_future(served.pull("orders", 5, hold_ms=60_000))
        await asyncio.sleep(0.05)
        served.broker.pull.on_queue_growth = lambda grown: None  # the wake-up is lost
        await served.send("orders", b"5")
        await asyncio.sleep(0.05)
        assert not waiting.done()
        served.broker.pull._last_recheck_ms -= RECHECK_MS
        assert [r.body for r in records(await waiting)] == [b"5"]


async def test_pull_waits_only_briefly_without_long_polling(tmp_path: Path):
    async with running(tmp_path, long_polling=False, short_polling_ms=50) as served:
        await five(served)
        assert (await served.pull("orders", 5, hold_ms=60_000)).code == ResponseCode.PULL_NOT_FOUND


async def test_pulls_of_a_disconnected_client_are_dropped(tmp_path: Path):
    async with running(tmp_path) as served:
        await five(served)
        waiting = asyncio.ensure_future(served.pull("orders", 5, hold_ms=60_000))
        await until(lambda: served.broker.pull.waiting == 1, "the pull waits")
        (await served.dialer.connection(served.address)).abort("test")
        await asyncio.gather(waiting, return_exceptions=True)
        await until(lambda: served.broker.pull.waiting == 0, "no pull waits")


async def test_commit_offset_of_a_pull_is_stored(tmp_path: Path):
    async with running(tmp_path) as served:
        await five(served)
        await served.pull("orders", 3, sys_flag=PULL_SUBSCRIPTION | PULL_COMMIT_OFFSET, commit_offset=3)
        assert served.broker.offsets.query("consumers", "orders", 0) == 3


async def test_a_pull_without_its_own_subscription_uses_the_groups_heartbeat(tmp_path: Path):
    async with running(tmp_path) as served:
        await five(served)
        assert (await served.pull("orders", 0, sys_flag=0)).code == ResponseCode.SUBSCRIPTION_NOT_EXIST
        await served.heartbeat("consumers", orders="blue")
        assert [r.body for r in records(await served.pull("orders", 0, sys_flag=0))] == [b"1", b"3"]
        assert (await served.pull("orders", 0, sys_flag=0, sub_version=2)).code == ResponseCode.SUBSCRIPTION_NOT_LATEST
        await served.send("other", b"x")
        assert (await served.pull("other", 0, sys_flag=0)).code == ResponseCode.SUBSCRIPTION_NOT_EXIST


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"queue_id": 99}, ResponseCode.INVALID_PARAMETER),
        ({"queue_id": -1}, ResponseCode.INVALID_PARAMETER),
        ({"tags": "||"}, ResponseCode.SUBSCRIPTION_PARSE_FAILED),
        ({"expression_type": "SQL92"}, ResponseCode.SYSTEM_ERROR),
        ({"consumer_group": "a/b"}, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST),
    ],
)
async def test_invalid_pull_is_refused(tmp_path: Path, given: dict, code: ResponseCode):
    async with running(tmp_path) as served:
        await five(served)
        assert (await served.pull("orders", 0, **given)).code == code


async def test_pull_of_an_unknown_topic_fails_with_topic_not_exist(tmp_path: Path):
    async with running(tmp_path) as served:
        assert (await served.pull("nowhere", 0)).code == ResponseCode.TOPIC_NOT_EXIST


async def test_lite_pulls_are_pulls(tmp_path: Path):
    async with running(tmp_path) as served:
        await five(served)
        response = await served.ask(RequestCode.LITE_PULL_MESSAGE, pull_header("orders", 0))
        assert len(records(response)) == 5


async def test_reset_group_continues_at_its_new_offset(tmp_path: Path):
    async with running(tmp_path) as served:
        await five(served)
        served.broker.offsets.reset("consumers", "orders", 0, 1)
        response = await served.pull("orders", 5, hold_ms=60_000)
        assert response.code == ResponseCode.PULL_OFFSET_MOVED
        assert response.header(PullMessageResponseHeader).next_begin_offset == 1
        assert len(records(await served.pull("orders", 1))) == 4


async def test_commit_of_a_pull_does_not_undo_a_reset(tmp_path: Path):
    commits = {"sys_flag": PULL_SUBSCRIPTION | PULL_COMMIT_OFFSET}
    async with running(tmp_path) as served:
        await five(served)
        await served.pull("orders", 4, **commits, commit_offset=4)
        served.broker.offsets.reset("consumers", "orders", 0, 1)
        assert (await served.pull("orders", 4, **commits, commit_offset=4)).code == ResponseCode.PULL_OFFSET_MOVED
        assert served.broker.offsets.query("consumers", "orders", 0) == 1
        await served.pull("orders", 1, **commits, commit_offset=4)
        assert served.broker.offsets.query("consumers", "orders", 0) == 1, "the consumer's offset was from before the reset"
        await served.pull("orders", 3, **commits, commit_offset=2)
        assert served.broker.offsets.query("consumers", "orders", 0) == 2


async def test_pull_of_a_forbidden_topic_is_refused(tmp_path: Path):
    async with running(tmp_path) as served:
        await five(served)
        await served.pull("orders", 0)
        served.broker.groups.forbid("consumers", "orders", forbidden=True)
        assert (await served.pull("orders", 0)).code == ResponseCode.NO_PERMISSION


async def test_message_reaches_a_waiting_consumer_in_the_turn_of_its_send(tmp_path: Path):
    """No timer, thread or second turn of the loop lies between the send and the consumer's socket."""
    async with running(tmp_path) as served:
        await served.send("orders", b"first")
        consumer, to_consumer = connected(served.broker.server)
        producer, _ = connected(served.broker.server)
        consumer.data_received(a_pull(7, 1, hold_ms=15_000))
        await asyncio.sleep(0)
        assert served.broker.pull.waiting == 1
        command = Command(RequestCode.SEND_MESSAGE_V2, fields=send_header("orders").to_fields(), body=b"second", opaque=8)
        producer.data_received(encode_command(command))
        assert not to_consumer.written
        await asyncio.sleep(0)  # the end of the turn
        [answer] = [decode_command(frame) for frame in FrameSplitter().feed(to_consumer.written)]
        assert answer.opaque == 7
        assert [record.body for record in records(answer)] == [b"second"]


async def test_consumers_that_wait_for_the_same_messages_share_what_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    async with running(tmp_path) as served:
        await served.send("orders", b"first")
        await served.send("orders", b"other queue", queue_id=1)
        consumers = [connected(served.broker.server) for _ in range(PULLS_PER_SLICE + 20)]
        for consumer, _ in consumers:
            consumer.data_received(a_pull(7, 1, hold_ms=15_000) + a_pull(8, 1, queue_id=1, hold_ms=15_000))
        await asyncio.sleep(0)
        assert served.broker.pull.waiting == 2 * len(consumers)
        reading, read = served.broker.store.reading, []
        read_pull = reading.read_pull
        monkeypatch.setattr(reading, "read_pull", lambda queue, run: read.append(run) or read_pull(queue, run))
        await served.send("orders", b"second")
        await asyncio.sleep(0)
        for _, to_consumer in consumers:
            [answer] = [decode_command(frame) for frame in FrameSplitter().feed(to_consumer.written)]
            assert answer.opaque == 7
            assert [record.body for record in records(answer)] == [b"second"]
        assert len(read) == 2, "one read for each slice"
        assert served.broker.pull.waiting == len(consumers)
