"""Why does a consumer receive nothing? Each reason, made with real members at our broker and at Apache's."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from skyrocket.client import Admin, sql
from skyrocket.client.consumer.offsets.queue_offsets import QueueOffsets
from skyrocket.client.queues import Queue
from skyrocket.doctor.cluster.broker_rules import WAIT_LIMITS
from skyrocket.doctor.cluster.collect import ClusterCollector
from skyrocket.protocol.bodies import ConsumerData, HeartbeatData, SubscriptionData
from skyrocket.protocol.fastjson.codec import encode
from skyrocket.protocol.requests import RequestCode
from skyrocket.report.parts import Severity
from tests.client.consumer_support import broker_address
from tests.client.doctor.scenes import examine, finding_of, member, prepare, rules_of, send
from tests.client.servers import BROKER, Servers, reader
from tests.support.apache.java_scenes import Cluster, Scenes
from tests.support.processes.skyrocket_process import registered
from tests.support.waiting import WAIT_S_MAX


async def test_a_group_that_consumes_gets_no_diagnosis(servers: Servers):
    topic, group = await prepare(servers)
    await send(servers, topic, 6, tag="paid")
    async with (
        member(servers, group, topic, "paid"),
        Admin(servers.nameserver) as admin,
        asyncio.timeout(WAIT_S_MAX),
    ):
        while (await admin.groups.progress(group)).lag:  # noqa: ASYNC110 — a broker sends no notification
            await asyncio.sleep(0.05)
        examined = await examine(servers.nameserver, group=group, every_s=0.2)
    assert (rules_of(examined), examined.is_sound, examined.unanswered) == ([], True, [])
    assert examined.looked_at[:4] == ["1 nameserver", "1 broker", "1 topic", "1 group"]


async def test_what_a_broker_tells_of_itself(servers: Servers):
    async with Admin(servers.nameserver) as admin:
        (broker,) = (await ClusterCollector(admin).collect(0)).facts.brokers
    assert broker.clock_ahead_ms is not None
    assert abs(broker.clock_ahead_ms) < 1000 * WAIT_S_MAX
    assert 0 < broker.figure("commitLogDiskRatio") <= 1
    assert broker.setting("diskSpaceWarningLevelRatio", 0) == 95
    assert broker.config["autoCreateTopicEnable"] == "true"
    assert broker.config["enablePropertyFilter"] == "true"
    assert broker.slaves == []
    for limit in WAIT_LIMITS:
        assert limit.figure in broker.runtime
        assert limit.setting in broker.config


async def test_members_that_subscribe_differently(servers: Servers):
    topic, group = await prepare(servers)
    async with member(servers, group, topic, "a"), member(servers, group, topic, "b"):
        found = await finding_of(servers.nameserver, "differing-subscriptions", group=group)
    assert found.severity is Severity.PROBLEM
    assert f"{topic} (a)" in found.evidence
    assert f"{topic} (b)" in found.evidence
    assert found.advice == "Give all members the same subscriptions, or separate groups."


async def test_a_tag_that_no_message_has(servers: Servers):
    topic, group = await prepare(servers)
    await send(servers, topic, 6, tag="paid")
    async with member(servers, group, topic, "Paid") as client_id:
        found = await finding_of(servers.nameserver, "wrong-tag", group=group)
    assert f"Member {client_id} subscribes to 'Paid'" in found.evidence
    assert "the tags of the newest 6 messages are: 'paid'" in found.evidence
    assert "Did you mean 'paid'?" in found.evidence


async def test_an_sql_expression_given_as_a_tag(servers: Servers):
    """Our client refuses to subscribe so; others do not, so the heartbeat is written here."""
    topic, group = await prepare(servers)
    subscription = SubscriptionData(topic=topic, sub_string="price > 100", tags_set=["price > 100"], sub_version=1)
    heartbeat = HeartbeatData(
        client_id="10.0.0.7@4711", consumer_data_set=[ConsumerData(group_name=group, subscription_data_set=[subscription])]
    )
    async with reader(servers) as read:
        await read.session.request_ok(await broker_address(read), RequestCode.HEART_BEAT, body=encode(heartbeat))
        found = await finding_of(servers.nameserver, "sql-as-tag", group=group)
        rules = rules_of(await examine(servers.nameserver, group=group))
    assert "'price > 100'" in found.evidence
    assert "MessageSelector.bySql" in found.advice
    assert "wrong-tag" not in rules, "one cause, one finding"


async def test_an_offset_beyond_the_end(servers: Servers):
    topic, group = servers.topic("short"), servers.topic("ahead")
    async with Admin(servers.nameserver) as admin:
        await admin.topics.create(topic, queues=1)
        await admin.groups.create(group)
    await send(servers, topic, 3)
    async with reader(servers) as read:
        await read.session.route(topic)
        await QueueOffsets(read.session, group).commit(Queue(topic, BROKER, 0), 500)
    found = await finding_of(servers.nameserver, "offset-beyond-end", group=group)
    assert "offset 500, end 3" in found.evidence
    assert f"skyrocket offset reset {group} {topic} --to first" in found.advice


async def test_more_members_than_queues(servers: Servers):
    topic, group = await prepare(servers, queues=1)
    async with member(servers, group, topic), member(servers, group, topic):
        found = await finding_of(servers.nameserver, "idle-member", group=group)
    assert found.evidence.endswith("With queues: 1.")


async def test_a_topic_that_may_not_be_read_or_written(servers: Servers):
    topic, group = await prepare(servers)
    async with Admin(servers.nameserver) as admin:
        await admin.topics.create(topic, permission="w")
        async with member(servers, group, topic):
            found = await finding_of(servers.nameserver, "topic-unreadable", group=group)
        await admin.topics.create(topic, permission="r")
        closed = await finding_of(servers.nameserver, "topic-unwritable", topic=topic)
    assert f"{BROKER} w" in found.evidence
    assert f"skyrocket topic create {topic} --perm rw" in found.advice
    assert closed.severity is Severity.WARNING


async def test_a_group_that_may_not_consume(servers: Servers):
    topic, group = await prepare(servers)
    async with Admin(servers.nameserver) as admin, member(servers, group, topic):
        await admin.groups.create(group, enabled=False)
        found = await finding_of(servers.nameserver, "group-disabled", group=group)
    assert BROKER in found.evidence
    assert found.advice.endswith(f"skyrocket group create {group} --enabled")


async def test_members_that_broadcast_beside_members_that_cluster(servers: Servers):
    topic, group = await prepare(servers)
    async with member(servers, group, topic) as clustering, member(servers, group, topic, broadcasting=True) as broadcasting:
        found = await finding_of(servers.nameserver, "mixed-models", group=group)
    assert found.evidence == f"Broadcasting: {broadcasting}. Clustering: {clustering}."


async def test_a_group_that_may_not_broadcast(servers: Servers):
    topic, group = await prepare(servers)
    async with Admin(servers.nameserver) as admin, member(servers, group, topic, broadcasting=True) as client_id:
        await admin.groups.create(group, broadcast=False)
        found = await finding_of(servers.nameserver, "broadcast-forbidden", group=group)
    assert client_id in found.evidence


async def test_a_member_that_hangs_while_the_backlog_grows(servers: Servers):
    topic, group = await prepare(servers, queues=1)
    await send(servers, topic, 4)
    async with member(servers, group, topic, hangs=True) as client_id:
        found = await finding_of(servers.nameserver, "halted-member", group=group, every_s=0.3)
    assert client_id in found.what
    assert "pulled 4 messages" in found.evidence


async def test_nobody_reads(servers: Servers):
    topic, group = await prepare(servers)
    await send(servers, topic, 3)
    found = await finding_of(servers.nameserver, "no-member", topic=topic)
    assert (found.about, found.evidence) == (f"group {group}", "3 messages wait in 1 topic.")


async def test_a_group_and_a_topic_that_do_not_exist(servers: Servers):
    topic, group = await prepare(servers)
    examined = await examine(servers.nameserver, group=f"{group}x", topic=f"{topic}x")
    missing = {one.rule: one for one in examined.findings}
    assert {"group-missing", "topic-missing"} <= missing.keys()
    assert f"Did you mean '{group}'?" in missing["group-missing"].evidence
    assert f"Did you mean '{topic}'?" in missing["topic-missing"].evidence
    assert "autoCreateTopicEnable is true" in missing["topic-missing"].evidence
    assert not examined.is_sound


@pytest.mark.interop
async def test_members_in_java_are_understood(ours: Servers, tmp_path: Path):
    """Java's client takes SQL for a tag without a word, and tells whether it broadcasts."""
    topic, group = await prepare(ours)
    other = ours.topic("mixed")
    scenes = Scenes(tmp_path, "doctor", Cluster(ours.nameserver, registered(ours.nameserver)[0], "any"), [])
    try:
        await asyncio.to_thread(scenes.push, group, topic, "price > 100")
        found = await finding_of(ours.nameserver, "sql-as-tag", group=group)
        await asyncio.to_thread(lambda: scenes.push(other, topic, model="BROADCASTING"))
        async with member(ours, other, topic) as clustering:
            mixed = await finding_of(ours.nameserver, "mixed-models", group=other)
    finally:
        scenes.kill()
    assert found.evidence.startswith("Member ")
    assert "'price > 100'" in found.evidence
    assert mixed.evidence.endswith(f"Clustering: {clustering}.")


@pytest.mark.interop
async def test_a_broker_that_does_not_filter_by_sql(apache: Servers):
    """Changed at run time: the broker goes on refusing what it refused, which is all that the rule looks at."""
    topic, group = await prepare(apache)
    async with Admin(apache.nameserver) as admin, member(apache, group, topic, sql("price > 100")):
        before = await examine(apache.nameserver, group=group)
        await admin.cluster.update_config(BROKER, {"enablePropertyFilter": "false"})
        try:
            found = await finding_of(apache.nameserver, "sql-filter-off", group=group)
        finally:
            await admin.cluster.update_config(BROKER, {"enablePropertyFilter": "true"})
    assert "sql-filter-off" not in rules_of(before)
    assert "'price > 100'" in found.evidence
