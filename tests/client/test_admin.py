"""The admin client, against our servers and Apache's."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta

import pytest

from skyrocket.client import (
    Admin,
    BrokerError,
    ClientClosedError,
    ClientError,
    ConfigurationError,
    Consumer,
    Message,
    NoNameserverError,
    NoRouteError,
    NotFoundError,
    Producer,
    PullConsumer,
    Queue,
    sync,
)
from skyrocket.client.admin import sync_admin
from skyrocket.client.admin.admin import AccessAdmin, ClusterAdmin, GroupAdmin, MessageAdmin, OffsetAdmin, TopicAdmin
from skyrocket.protocol.headers import GetKVConfigRequestHeader
from skyrocket.protocol.requests import RequestCode
from tests.client.consumer_support import QUICK, numbered, numbers, take
from tests.client.servers import BROKER, Servers
from tests.support.ports import free_port
from tests.support.waiting import WAIT_S_MAX


async def fill_topic(servers: Servers, topic: str, count: int, queues: int = 1) -> list[str]:
    """Create a topic and send `count` messages to its queues in turn. Returns their offset ids."""
    async with Admin(servers.nameserver) as admin:
        await admin.topics.create(topic, queues=queues)
        async with Producer(servers.nameserver) as producer:
            receipts = [
                await producer.send(
                    Message(topic, b"%d" % number, keys=[f"k{number % 3}"], tag="even" if number % 2 == 0 else "odd"),
                    queue=Queue(topic, BROKER, number % queues),
                )
                for number in range(count)
            ]
        async with asyncio.timeout(WAIT_S_MAX):  # Apache's brokers dispatch a moment after they acknowledge
            while (await admin.topics.status(topic)).messages < count:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
    return [receipt.offset_id for receipt in receipts]


async def fetch_order(admin: Admin, topic: str) -> str | None:
    """Fetch the nameserver's order entry of a topic."""
    assert admin._session is not None
    header = GetKVConfigRequestHeader(namespace="ORDER_TOPIC_CONFIG", key=topic)
    return (await admin._session.request_nameserver(RequestCode.GET_KV_CONFIG, header)).fields.get("value")


# --- topics


async def test_topic_is_created_changed_shown_and_deleted(servers: Servers):
    topic = servers.topic("made")
    async with Admin(servers.nameserver) as admin:
        (made,) = await admin.topics.create(topic, queues=3, attributes={"message.type": "NORMAL"})
        assert (made.read_queues, made.write_queues, made.permission, made.broker_name) == (3, 3, "rw", BROKER)
        assert topic in await admin.topics.names()
        (row,) = (await admin.topics.route(topic)).brokers
        assert (row.broker_name, row.read_queues, row.permission, list(row.addresses)) == (BROKER, 3, "rw", [0])

        await admin.topics.create(topic, write_queues=2, permission="r")
        (changed,) = await admin.topics.get(topic)
        assert (changed.read_queues, changed.write_queues, changed.permission) == (3, 2, "r"), "values that are not given stay"
        assert changed.attributes == {"message.type": "NORMAL"}

        await admin.topics.create(topic, permission="rw", attributes={"message.type": None})
        (changed,) = await admin.topics.get(topic)
        assert (changed.permission, changed.attributes) == ("rw", {})

        await admin.topics.delete(topic)
        assert topic not in await admin.topics.names()
        with pytest.raises(NoRouteError, match=topic):
            await admin.topics.status(topic)


async def test_ordered_topic_has_an_order_entry_at_the_nameserver(servers: Servers):
    topic = servers.topic("ordered")
    async with Admin(servers.nameserver) as admin:
        (made,) = await admin.topics.create(topic, queues=2, order=True)
        assert made.is_ordered
        assert (await admin.topics.get(topic))[0].is_ordered
        assert await fetch_order(admin, topic) == f"{BROKER}:2"
        await admin.topics.create(topic, queues=3)
        assert await fetch_order(admin, topic) == f"{BROKER}:3", "values that are not given stay"
        (changed,) = await admin.topics.create(topic, order=False)
        assert not changed.is_ordered
        assert await fetch_order(admin, topic) is None
        await admin.topics.delete(topic)


async def test_status_of_a_topic_has_the_offsets_of_each_queue(servers: Servers):
    topic = servers.topic("status")
    before_ms = time.time_ns() // 1_000_000
    await fill_topic(servers, topic, 5, queues=2)
    async with Admin(servers.nameserver) as admin:
        status = await admin.topics.status(topic)
        assert [(row.queue_id, row.first_offset, row.end_offset) for row in status.queues] == [(0, 0, 3), (1, 0, 2)]
        assert status.messages == 5
        assert all(row.updated_ms >= before_ms for row in status.queues)


async def test_internal_names_are_listed_only_on_request(servers: Servers):
    async with Admin(servers.nameserver) as admin:
        assert "TBW102" not in await admin.topics.names()
        assert {"TBW102", BROKER} <= set(await admin.topics.names(internal=True))
        assert "TOOLS_CONSUMER" not in await admin.groups.names()
        assert "TOOLS_CONSUMER" in await admin.groups.names(internal=True)


# --- groups


async def test_group_is_created_changed_shown_and_deleted(servers: Servers):
    group = servers.topic("group")
    async with Admin(servers.nameserver) as admin:
        with pytest.raises(NotFoundError, match=group):
            await admin.groups.get(group)
        await admin.groups.create(group, retries_max=3)
        assert group in await admin.groups.names()
        await admin.groups.create(group, enabled=False)
        (shown,) = await admin.groups.get(group)
        assert (shown.retries_max, shown.is_enabled, shown.broker_name) == (3, False, BROKER)
        await admin.groups.delete(group, topics=True)
        assert group not in await admin.groups.names()
        with pytest.raises(NotFoundError):
            await admin.groups.delete(group)


async def test_members_and_progress_of_a_group(servers: Servers):
    topic, group = servers.topic("members"), servers.topic("members-of")
    await fill_topic(servers, topic, 6, queues=2)
    async with Admin(servers.nameserver) as admin:
        assert (await admin.groups.members(group)).members == []
        consumer = Consumer(servers.nameserver, group=group, topics={topic: "*"}, start="first", consumer_limits=QUICK)
        async with consumer:
            assert len(await take(consumer, 6)) == 6
            found = await admin.groups.members(group)
            assert [member.client_id for member in found.members] == [consumer.client_id]
            assert (found.members[0].language, found.members[0].version) == ("PYTHON", "5.5.0")
            assert found.subscriptions[topic] == "*"
            assert found.is_broadcasting is False
            state = await admin.groups.member_state(group, consumer.client_id)
            assert (state.group, state.client_id, state.subscriptions[topic]) == (group, consumer.client_id, "*")
            assert [row.queue for row in state.queues if row.topic == topic] == [Queue(topic, BROKER, 0), Queue(topic, BROKER, 1)]
            assert (state.stack, state.properties["PROP_CONSUMEORDERLY"]) == ("", "false")
            assert topic in state.rates
            assert "thread" in (await admin.groups.member_state(group, consumer.client_id, stack=True)).stack
            with pytest.raises(NotFoundError, match="No broker reaches consumer 'somebody-else'"):
                await admin.groups.member_state(group, "somebody-else")
            await consumer.commit()
        async with Producer(servers.nameserver) as producer:
            await producer.send(Message(topic, b"late"), queue=Queue(topic, BROKER, 0))
        async with asyncio.timeout(WAIT_S_MAX):
            while (progress := await admin.groups.progress(group, topic)).lag != 1:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        assert [(row.committed_offset, row.end_offset, row.lag) for row in progress.queues] == [(3, 4, 1), (3, 3, 0)]
        assert progress.queues[0].consumed_ms > 0
        assert topic in {row.topic for row in (await admin.groups.progress(group)).queues}
        assert topic in await admin.groups.topics(group)
        assert group in await admin.topics.groups(topic)


async def test_connected_producers_are_listed(servers: Servers):
    topic, group = servers.topic("producers"), servers.topic("producing")
    await fill_topic(servers, topic, 1)
    async with Admin(servers.nameserver) as admin, Producer(servers.nameserver, group=group) as producer:
        await producer.send(Message(topic, b"m"))
        async with asyncio.timeout(WAIT_S_MAX):
            while not (found := await admin.groups.producers(group)):  # noqa: ASYNC110 — until the heartbeat arrives
                await asyncio.sleep(0.02)
        assert [(one.group, one.client_id, one.language) for one in found] == [(group, producer.client_id, "PYTHON")]
        assert group in {one.group for one in await admin.groups.producers()}
        assert await admin.groups.producers("nobody-here") == []


# --- offsets


async def test_offsets_are_read_reset_set_and_cloned(servers: Servers):
    topic, group, other = servers.topic("offsets"), servers.topic("offsets-of"), servers.topic("clone")
    await fill_topic(servers, topic, 6, queues=2)
    async with Admin(servers.nameserver) as admin:
        await admin.groups.create(group)
        assert [row.offset for row in await admin.offsets.reset(group, topic, "last")] == [3, 3]
        assert [row.offset for row in await admin.offsets.get(group, topic)] == [3, 3]
        assert [row.offset for row in await admin.offsets.reset(group, topic, "first")] == [0, 0]
        soon = datetime.now(UTC) + timedelta(minutes=1)
        assert [row.offset for row in await admin.offsets.reset(group, topic, soon)] == [3, 3]
        await admin.offsets.set(group, {Queue(topic, BROKER, 1): 2})
        assert [row.offset for row in await admin.offsets.get(group, topic)] == [3, 2]

        await admin.groups.create(other)
        assert [row.offset for row in await admin.offsets.clone(group, other, topic)] == [3, 2]
        assert await admin.offsets.at(topic, "last") == {Queue(topic, BROKER, 0): 3, Queue(topic, BROKER, 1): 3}
        with pytest.raises(BrokerError, match="777"):
            await admin.offsets.set(group, {Queue(topic, BROKER, 1): 777})


async def test_running_group_continues_at_the_reset_offset(servers: Servers):
    topic, group = servers.topic("running"), servers.topic("running-of")
    await fill_topic(servers, topic, 4)
    consumer = Consumer(servers.nameserver, group=group, topics=topic, start="first", consumer_limits=QUICK)
    async with Admin(servers.nameserver) as admin, consumer:
        assert numbers(await take(consumer, 4)) == [0, 1, 2, 3]
        await consumer.commit()
        await admin.offsets.reset(group, topic, "first")
        assert numbers(await take(consumer, 4)) == [0, 1, 2, 3]


# --- messages


async def test_messages_are_found_by_key_id_and_offset(servers: Servers):
    topic = servers.topic("found")
    ids = await fill_topic(servers, topic, 6, queues=2)
    async with Admin(servers.nameserver) as admin:
        async with asyncio.timeout(WAIT_S_MAX):
            while len(found := await admin.messages.by_key(topic, "k1")) < 2:  # noqa: ASYNC110 — until the index is built
                await asyncio.sleep(0.02)
        assert numbers(found) == [1, 4]
        assert await admin.messages.by_key(topic, "no-such-key") == []
        (same,) = await admin.messages.by_unique_id(topic, found[0].message_id)
        assert (same.body, same.topic, same.queue) == (b"1", topic, Queue(topic, BROKER, 1))
        assert (await admin.messages.by_offset_id(ids[5])).body == b"5"
        assert (await admin.messages.by_offset(Queue(topic, BROKER, 1), 2)).body == b"5"
        for missing in (
            admin.messages.by_unique_id(topic, "0" * 32),
            admin.messages.by_offset_id(ids[5][:16] + "F".zfill(16)),
            admin.messages.by_offset_id("7F000001" + "00000001" + "0" * 16),
            admin.messages.by_offset(Queue(topic, BROKER, 1), 99),
        ):
            with pytest.raises(NotFoundError):
                await missing
        with pytest.raises(ConfigurationError, match="An offset id"):
            await admin.messages.by_offset_id("nonsense")


async def test_reading_a_topic_commits_no_offsets(servers: Servers):
    topic = servers.topic("read")
    await fill_topic(servers, topic, 70, queues=2)
    async with Admin(servers.nameserver) as admin:
        assert sorted(numbers([one async for one in admin.messages.read(topic)])) == list(range(70))
        odd = [one async for one in admin.messages.read(topic, expression="odd")]
        assert sorted(numbers(odd)) == list(range(1, 70, 2))
        assert sorted(numbers(await admin.messages.peek(topic, most=4))) == [66, 67, 68, 69]
        part = [one async for one in admin.messages.read_queue(Queue(topic, BROKER, 0), 2, 9)]
        assert [one.queue_offset for one in part] == list(range(2, 9))
        assert [one async for one in admin.messages.read(topic, start=datetime.now(UTC) + timedelta(hours=1))] == []
        assert {row.offset for row in await admin.offsets.get("TOOLS_CONSUMER", topic)} <= {None, 0}


# --- the cluster


async def test_cluster_states_and_settings(servers: Servers):
    async with Admin(servers.nameserver) as admin:
        (state,) = await admin.cluster.states()
        assert (state.broker_name, state.broker_id, state.version, state.error) == (BROKER, 0, "5.5.0", "")
        assert state.is_master
        assert (await admin.cluster.runtime(BROKER))["brokerVersionDesc"] == "V5_5_0"
        assert (await admin.cluster.config(state.address))["brokerName"] == BROKER
        await admin.cluster.update_config(BROKER, {"fileReservedTime": "71"})
        assert (await admin.cluster.config(BROKER))["fileReservedTime"] == "71"
        assert admin.cluster.nameservers == [servers.nameserver]
        await admin.cluster.update_nameserver_config({"waitSecondsForService": "44"})
        assert (await admin.cluster.nameserver_config())[servers.nameserver]["waitSecondsForService"] == "44"
        with pytest.raises(NotFoundError, match="'nowhere'"):
            await admin.cluster.config("nowhere")
        with pytest.raises(NotFoundError, match="in cluster 'elsewhere'"):
            await admin.topics.create(servers.topic("lost"), cluster="elsewhere")


async def test_what_one_nameserver_and_one_broker_know(servers: Servers):
    topic = servers.topic("there")
    async with Admin(servers.nameserver) as admin:
        (broker,) = await admin.cluster.brokers(servers.nameserver)
        assert [broker] == await admin.cluster.brokers()
        with pytest.raises(ClientError):
            await admin.cluster.brokers(f"127.0.0.1:{free_port()}")
        await admin.topics.create(topic, queues=3)
        settings = await admin.topics.get_at(topic, BROKER)
        assert settings is not None
        assert (settings.write_queues, settings.broker_name) == (3, BROKER)
        assert await admin.topics.get_at(servers.topic("not-there"), BROKER) is None
        state = await admin.cluster.replication(BROKER)
        assert (state.is_master, state.slaves, state.master_address) == (True, [], "")
        assert state.end_offset >= 0


async def test_refused_setting_raises_the_brokers_error(ours: Servers):
    async with Admin(ours.nameserver) as admin:
        with pytest.raises(BrokerError, match="storePathRootDir"):
            await admin.cluster.update_config(BROKER, {"storePathRootDir": "/elsewhere"})


# --- namespace, errors, sync


async def test_namespace_is_invisible_to_the_user(servers: Servers):
    topic = servers.topic("spaced")
    async with Admin(servers.nameserver, namespace="tenant") as admin, Admin(servers.nameserver) as without_namespace:
        await admin.topics.create(topic, queues=1)
        assert topic in await admin.topics.names()
        assert f"tenant%{topic}" in await without_namespace.topics.names()
        assert topic not in await without_namespace.topics.names()
        async with Producer(servers.nameserver, namespace="tenant") as producer:
            await producer.send(Message(topic, b"m"))
        async with asyncio.timeout(WAIT_S_MAX):
            while not (found := await admin.messages.peek(topic)):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        assert [message.topic for message in found] == [topic]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda admin: admin.topics.create("a/b"),
        lambda admin: admin.topics.create("fine", queues=0),
        lambda admin: admin.topics.create("fine", permission="x"),
        lambda admin: admin.groups.create(""),
        lambda admin: admin.messages.by_key("fine", ""),
        lambda admin: admin.messages.by_key("fine", "key", most=1_000),
    ],
)
async def test_invalid_arguments_are_refused_before_any_request(ours: Servers, wrong):
    async with Admin(ours.nameserver) as admin:
        with pytest.raises(ValueError, match=r"."):
            await wrong(admin)


async def test_no_nameserver_and_closed_client_raise_typed_errors():
    async with Admin("127.0.0.1:1") as admin:
        with pytest.raises(NoNameserverError):
            await admin.topics.names()
    with pytest.raises(ClientClosedError):
        await admin.cluster.brokers()


def test_sync_admin_works_without_await(servers: Servers):
    topic = servers.topic("sync-admin")
    with sync.Admin(servers.nameserver) as admin:
        admin.topics.create(topic, queues=2)
        assert admin.topics.status(topic).messages == 0
        with sync.Producer(servers.nameserver) as producer:
            for body in numbered(3):
                producer.send(Message(topic, body))
        deadline = time.monotonic() + WAIT_S_MAX
        while len(found := list(admin.messages.read(topic))) < 3:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert sorted(numbers(found)) == [0, 1, 2]
        assert admin.cluster.brokers()[0].broker_name == BROKER
        with pytest.raises(NotFoundError):
            admin.groups.get("no-such-group")


@pytest.mark.parametrize(
    ("async_class", "sync_class"),
    [
        (TopicAdmin, sync_admin.SyncTopicAdmin),
        (GroupAdmin, sync_admin.SyncGroupAdmin),
        (OffsetAdmin, sync_admin.SyncOffsetAdmin),
        (MessageAdmin, sync_admin.SyncMessageAdmin),
        (ClusterAdmin, sync_admin.SyncClusterAdmin),
        (AccessAdmin, sync_admin.SyncAccessAdmin),
    ],
)
def test_sync_admin_has_every_method(async_class: type, sync_class: type):
    expected = {name for name in vars(async_class) if not name.startswith("_")} - {"nameservers"}
    assert expected == {name for name in vars(sync_class) if not name.startswith("_")}


async def test_offset_that_was_set_is_the_committed_offset_of_a_consumer(servers: Servers):
    topic, group = servers.topic("set"), servers.topic("set-of")
    await fill_topic(servers, topic, 5)
    async with Admin(servers.nameserver) as admin:
        await admin.groups.create(group)
        await admin.offsets.set(group, {Queue(topic, BROKER, 0): 3})
        async with PullConsumer(servers.nameserver, group=group) as consumer:
            assert await consumer.committed(Queue(topic, BROKER, 0)) == 3


# --- what the console asks for


async def test_nameservers_and_replication_are_told(servers: Servers):
    async with Admin(servers.nameserver) as admin:
        (nameserver,) = await admin.cluster.nameserver_states()
        (broker,) = await admin.cluster.brokers()
        assert (nameserver.address, nameserver.brokers, nameserver.error) == (servers.nameserver, [broker.address], "")
        assert (await admin.cluster.state(broker)).version == "5.5.0"
        replication = await admin.cluster.replication(broker.address)
        assert (replication.is_master, replication.slaves, replication.master_address) == (True, [], "")
        assert replication.end_offset > 0


async def test_a_nameserver_that_does_not_answer_has_a_row_that_says_so(servers: Servers):
    async with Admin(f"{servers.nameserver};127.0.0.1:1") as admin:
        answering, silent = await admin.cluster.nameserver_states()
    assert answering.brokers
    assert "127.0.0.1:1" in silent.error


async def test_a_dead_letter_is_delivered_to_its_group_again_and_to_no_other(servers: Servers):
    topic = servers.topic("retried")
    group, other = f"{topic}-group", f"{topic}-other"
    await fill_topic(servers, topic, 1)
    async with Admin(servers.nameserver) as admin:
        await admin.groups.create(group, retries_max=0)
        await admin.groups.create(other)
        seen: list[tuple[bytes, int]] = []
        consumer = Consumer(servers.nameserver, group=group, start="first", retries_max=0, consumer_limits=QUICK)

        @consumer.on(topic)
        async def handle(message: sync.Received) -> None:
            seen.append((message.body, message.reconsume_times))
            if len(seen) == 1:
                raise ValueError("not the first time")

        async with consumer:
            letters: list[sync.Received] = []
            async with asyncio.timeout(WAIT_S_MAX):
                while not letters:
                    try:
                        letters = [letter async for letter in admin.messages.read(f"%DLQ%{group}")]
                    except NoRouteError:
                        await asyncio.sleep(0.1)
                await admin.messages.retry_dead_letter(group, letters[0])
                while len(seen) < 2:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
        assert [body for body, _ in seen] == [b"0", b"0"]
        assert (await admin.topics.status(topic)).messages == 1, "no group but this one gets it again"
        (message,) = [one async for one in admin.messages.read(topic)]
        with pytest.raises(ConfigurationError, match="no dead letter"):
            await admin.messages.retry_dead_letter(group, message)
