"""Retry, dead letters and delay levels with Apache's Java client 5.5.0 and 4.9.8: the same scenes against ours and Apache's.

Levels are short here, so that sixteen tries take no hour: with an injected clock the default ones are tested in
tests/unit/broker/delay/test_levels.py and test_retry.py.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count, pairwise
from typing import NamedTuple

import pytest

from skyrocket.protocol.bodies import SubscriptionGroupConfig, TopicConfigSerializeWrapper
from skyrocket.protocol.command import Command
from skyrocket.protocol.fastjson.codec import decode, encode
from skyrocket.protocol.headers import ConsumerSendMsgBackRequestHeader, CreateTopicRequestHeader
from skyrocket.protocol.message.properties import decode_properties
from skyrocket.protocol.message.record import Record, iterate_records
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from tests.support.apache.cluster import ApacheCluster, send_request
from tests.support.apache.java_scenes import Cluster, Out, Scenes
from tests.support.brokers.running_broker import pull_header, send_header
from tests.support.processes.skyrocket_process import Skyrocket, registered
from tests.support.waiting import wait_until

pytestmark = pytest.mark.interop

LEVELS_S = (1, 2, 3, 1, 2)
SETTINGS = {"messageDelayLevel": " ".join(f"{level}s" for level in LEVELS_S), "mappedFileSizeCommitLog": 16_777_216}
SOON = ["-Drocketmq.client.rebalance.waitInterval=500", "-Drocketmq.client.rebalance.minInterval=50"]
POLL_MS = 300  # a retry topic is made with the first heartbeat, and the client should not learn of it after half a minute
LATE_MS_MAX = 20_000  # other work on the machine must not fail a test; that ours is exact is tested with an injected clock


class Way(NamedTuple):
    server: str
    client_version: str


WAYS = {
    "apache": Way("apache", "5.5.0"),
    "ours": Way("skyrocket", "5.5.0"),
    "ours-old": Way("skyrocket", "4.9.8"),
    "apache-old": Way("apache", "4.9.8"),
}
every_client = pytest.mark.parametrize("client", WAYS, indirect=True, scope="module")


@pytest.fixture(scope="module")
def apache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    home = tmp_path_factory.mktemp("apache")
    with ApacheCluster(home) as theirs:
        theirs.broker(home / "store", {**SETTINGS, "brokerName": "broker-a"})
        yield Cluster(theirs.nameserver, registered(theirs.nameserver)[0], "Test")


@pytest.fixture(scope="module")
def skyrocket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Skyrocket(tmp_path_factory.mktemp("skyrocket"), {**SETTINGS, "brokerClusterName": "Test"}) as ours:
        yield Cluster(ours.nameserver, ours.address, "Test")
        ours.stop()
        assert ours.complaints() == [], ours.log_tail(200)


@pytest.fixture(scope="module")
def client(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scenes]:
    way = WAYS[request.param]
    cluster = request.getfixturevalue(way.server)
    with ExitStack() as stack:
        scenes = Scenes(tmp_path_factory.mktemp("scenes"), request.param, cluster, SOON, way.client_version)
        stack.callback(scenes.kill)
        yield scenes


# --- delay levels


@every_client
def test_levels_one_to_four_come_in_time_and_never_early(client: Scenes):
    topic = client.topic("levels")
    group = client.push(client.named("group"), topic)
    client.send(topic, *[Out(f"level {level}".encode(), "red", properties={"DELAY": str(level)}) for level in (4, 3, 2, 1)])
    client.send(topic, Out(b"level 99", properties={"DELAY": "99"}), Out(b"at once", properties={"DELAY": "0"}))
    got = {message.body.decode(): message for message in client.heard(group, 6)}
    assert set(got) == {"level 1", "level 2", "level 3", "level 4", "level 99", "at once"}
    for level, seconds in {**dict(enumerate(LEVELS_S[:4], 1)), 99: LEVELS_S[-1]}.items():
        message = got[f"level {level}"]
        waited_ms = message.stored_ms - message.born_ms
        assert seconds * 1000 <= waited_ms <= seconds * 1000 + LATE_MS_MAX, message
        assert message.properties["DELAY"] == str(min(level, len(LEVELS_S)))
        assert message.properties["REAL_TOPIC"] == topic
        assert message.topic == topic
    assert got["at once"].stored_ms - got["at once"].born_ms < 1_000 + LATE_MS_MAX


@every_client
def test_a_delayed_message_is_chosen_by_its_tag(client: Scenes):
    topic = client.topic("tags")
    red = client.push(client.named("group"), topic, "red")
    client.send(topic, *[Out(tag.encode(), tag, properties={"DELAY": "1"}) for tag in ("blue", "red", "green")])
    assert [message.body for message in client.heard(red, 1)] == [b"red"]


# --- retry


@every_client
def test_a_message_comes_again_as_often_as_it_is_refused_and_then_no_more(client: Scenes):
    topic, group = client.topic("again"), client.named("group")
    consumer = client.push(group, topic, fails=2, level=1, pollMs=POLL_MS)
    (sent,) = client.send(topic, Out(b"hard", "red", "key-1", flag=3, properties={"own": "yes"}))
    tries = client.heard(consumer, 3)
    tries = client.heard(consumer, 4, wait_s=2)
    assert [message.reconsumed for message in tries] == [0, 1, 2]
    assert {message.message_id for message in tries} == {sent.message_id}, "the unique id changed"
    assert {message.topic for message in tries} == {topic}, "the client shows where a message first came from"
    for message in tries[1:]:
        assert (message.body, message.flag) == (b"hard", 3)
        assert message.properties["own"] == "yes"
        assert message.properties["TAGS"] == "red"
        assert message.properties["ORIGIN_MESSAGE_ID"] == sent.offset_id
    waits_ms = [later.stored_ms - before.stored_ms for before, later in pairwise(tries)]
    assert all(1_000 <= wait_ms <= 1_000 + LATE_MS_MAX for wait_ms in waits_ms), waits_ms


@every_client
def test_a_message_that_nobody_can_handle_lies_among_the_dead_letters_after_its_last_try(client: Scenes):
    topic, group = client.topic("hopeless"), client.named("group")
    consumer = client.push(group, topic, fails=100, tries=3, pollMs=POLL_MS)
    (sent,) = client.send(topic, Out(b"hopeless", "red", "key-1", properties={"own": "yes"}))
    tries = client.heard(consumer, 4)
    assert [message.reconsumed for message in tries] == [0, 1, 2, 3]
    waits_ms = [later.stored_ms - before.stored_ms for before, later in pairwise(tries)]
    for wait_ms, level in zip(waits_ms, (3, 4, 5), strict=True):  # they begin with the third level
        least_ms = LEVELS_S[level - 1] * 1000
        assert least_ms <= wait_ms <= least_ms + LATE_MS_MAX, waits_ms

    dead_letters = f"%DLQ%{group}"
    wait_until(lambda: client.is_routed(dead_letters), "the dead letters have a topic")
    undertaker = client.push(client.named("undertaker"), dead_letters)
    (dead,) = client.heard(undertaker, 1)
    assert (dead.body, dead.reconsumed, dead.message_id) == (b"hopeless", 4, sent.message_id)
    assert dead.properties["RETRY_TOPIC"] == topic
    assert dead.properties["ORIGIN_MESSAGE_ID"] == sent.offset_id
    assert dead.properties["own"] == "yes"
    assert len(client.heard(consumer, 5, wait_s=2)) == 4, "a dead letter was tried again"


@every_client
def test_a_consumer_that_gives_up_at_once_finds_the_message_among_the_dead_letters(client: Scenes):
    topic, group = client.topic("giving-up"), client.named("group")
    consumer = client.push(group, topic, fails=100, level=-1, pollMs=POLL_MS)
    client.send(topic, Out(b"no"))
    client.heard(consumer, 1)
    wait_until(lambda: client.is_routed(f"%DLQ%{group}"), "the dead letters have a topic")
    (dead,) = client.heard(client.push(client.named("undertaker"), f"%DLQ%{group}"), 1)
    assert (dead.body, dead.reconsumed) == (b"no", 1)
    assert len(client.heard(consumer, 2, wait_s=1)) == 1


@every_client
def test_a_queue_in_order_waits_for_its_message_and_goes_on_when_that_is_given_up(client: Scenes):
    topic, group = client.topic("in-order", queues=1), client.named("group")
    client.send(topic, *[Out(f"{number}".encode()) for number in range(3)])
    consumer = client.push(group, topic, listener="orderly", fails=2, suspendMs=50)
    tried = [(message.body, message.reconsumed) for message in client.heard(consumer, 9)]
    assert tried == [(f"{number}".encode(), times) for number in range(3) for times in range(3)]
    client.ask("stop", consumer)

    topic, group = client.topic("given-up", queues=1), client.named("group")
    client.send(topic, Out(b"hopeless"), Out(b"behind it"))
    consumer = client.push(group, topic, listener="orderly", fails=100, tries=2, suspendMs=50)
    tried = [(message.body, message.reconsumed) for message in client.heard(consumer, 6)]
    assert tried == [(body, times) for body in (b"hopeless", b"behind it") for times in range(3)]
    wait_until(lambda: client.is_routed(f"%DLQ%{group}"), "the dead letters have a topic")
    dead = client.heard(client.push(client.named("undertaker"), f"%DLQ%{group}"), 2)
    assert sorted(message.body for message in dead) == [b"behind it", b"hopeless"]


# --- the same requests to both brokers


class Raw:
    """Requests as no client makes them, to one broker."""

    def __init__(self, cluster: Cluster) -> None:
        host, port = cluster.broker.split(":")
        self._address = (host, int(port))
        self._numbers = count(1)

    def ask(self, code: int, header: object = None, body: bytes = b"", fields: dict[str, str] | None = None) -> Command:
        fields = fields if header is None else header.to_fields()  # type: ignore[attr-defined]
        answer = send_request(self._address, Command(code, opaque=next(self._numbers), fields=fields, body=body))
        assert answer is not None, "the broker does not answer"
        return answer

    def send(self, topic: str, body: bytes = b"body", **given: object) -> int:
        properties = {"UNIQ_KEY": f"{body.decode()}-key", **given.pop("properties", {})}  # type: ignore[dict-item]
        return int(self.ask(RequestCode.SEND_MESSAGE_V2, send_header(topic, properties=properties, **given), body).code)

    def back(self, offset: int, group: str, level: int = 1, **given: object) -> int:
        given = {"origin_topic": "raw", **given}
        header = ConsumerSendMsgBackRequestHeader(offset=offset, group=group, delay_level=level, **given)  # type: ignore[arg-type]
        return int(self.ask(RequestCode.CONSUMER_SEND_MSG_BACK, header).code)

    def records(self, topic: str, queues: int = 4) -> list[Record]:
        found: list[Record] = []
        for queue_id in range(queues):
            at = 0
            while (answer := self.ask(RequestCode.PULL_MESSAGE, pull_header(topic, at, queue_id=queue_id))).code == 0:
                found += iterate_records(answer.body)
                at = int(answer.fields["nextBeginOffset"])
        return found

    def topic(self, topic: str) -> None:
        header = CreateTopicRequestHeader(
            topic=topic,
            default_topic="TBW102",
            read_queue_nums=2,
            write_queue_nums=2,
            perm=6,
            topic_filter_type="SINGLE_TAG",
            topic_sys_flag=0,
            order=False,
        )
        assert self.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, header).code == ResponseCode.SUCCESS

    def group(self, name: str, **given: object) -> None:
        config = SubscriptionGroupConfig(group_name=name, **given)  # type: ignore[arg-type]
        self.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=encode(config))

    def configure(self, line: bytes) -> None:
        assert self.ask(RequestCode.UPDATE_BROKER_CONFIG, body=line).code == ResponseCode.SUCCESS

    def topics(self) -> dict[str, tuple[int, int, int, int]]:
        table = decode(self.ask(RequestCode.GET_ALL_TOPIC_CONFIG).body, TopicConfigSerializeWrapper).topic_config_table
        return {
            name: (config.read_queue_nums, config.write_queue_nums, config.perm, config.topic_sys_flag)
            for name, config in table.items()
            if name.startswith("%")
        }


def shown(record: Record, offsets: dict[int, str]) -> dict[str, object]:
    """What two brokers must agree about. An offset id in a property is shown as the message that it is of."""
    properties = decode_properties(record.properties)
    origin = properties.get("ORIGIN_MESSAGE_ID")
    if origin is not None:
        properties["ORIGIN_MESSAGE_ID"] = offsets[int(origin[-16:], 16)]
    return {
        "topic": record.topic,
        "queue": record.queue_id,
        "flag": record.flag,
        "sys flag": record.sys_flag,
        "born": record.born_timestamp,
        "tried": record.reconsume_times,
        "prepared": record.prepared_transaction_offset,
        "body": record.body,
        "properties": properties,
    }


def scene_of_delays(raw: Raw) -> dict[str, object]:
    """Each level as a property may say it, and what becomes of it."""
    raw.topic("raw")
    said: dict[str, int] = {}
    for level in ("0", "-1", "1", "2", "3", "4", "5", "6", "2147483647", "abc", "2147483648"):
        properties = {"DELAY": level, "TAGS": "A", "KEYS": "k1 k2", "WAIT": "true", "own": "ü"}
        body = f"level {level}".encode()
        said[level] = raw.send("raw", body, queue_id=1, properties=properties, flag=5, sys_flag=1, reconsume_times=2)
    timers = {"TIMER_DELAY_MS": "60000", "TIMER_DELAY_SEC": "60", "TIMER_DELIVER_MS": "5"}
    said["a level and timers"] = raw.send("raw", b"both", properties={"DELAY": "1", **timers})
    wait_until(lambda: len(raw.records("raw", 2)) == 10, "all delayed messages are delivered")
    every = [record for record in raw.records("SCHEDULE_TOPIC_XXXX", 5) if b"\x01raw\x02" in record.properties]
    waiting = {record.body: shown(record, {}) for record in every}
    delivered = {record.body: shown(record, {}) for record in raw.records("raw", 2)}
    return {"said": said, "waiting": waiting, "delivered": delivered}


def scene_of_topics_that_go(raw: Raw) -> dict[str, object]:
    """A topic is deleted while a message for it waits, and made again."""
    raw.topic("gone")
    said = raw.send("gone", b"late", queue_id=1, properties={"DELAY": "1"})
    raw.ask(RequestCode.DELETE_TOPIC_IN_BROKER, fields={"topic": "gone"})
    time.sleep(2.5)
    raw.topic("gone")
    return {"said": said, "delivered": [shown(record, {}) for record in raw.records("gone", 2)]}


def scene_of_send_backs(raw: Raw) -> dict[str, object]:
    """36 in all its ways."""
    raw.topic("raw-back")
    raw.send("raw-back", b"m", queue_id=1, properties={"TAGS": "A", "WAIT": "true", "own": "yes"}, flag=5, reconsume_times=2)
    (message,) = raw.records("raw-back", 2)
    offset = message.physical_offset
    raw.group("none", retry_queue_nums=0)
    raw.group("one", retry_max_times=1, retry_queue_nums=3)
    raw.group("closed", consume_enable=False)
    said = {
        "a new group": raw.back(offset, "new", 0),
        "a level": raw.back(offset, "level", 1),
        "a level too high": raw.back(offset, "high", 99),
        "give up": raw.back(offset, "given", -1),
        "the client's limit": raw.back(offset, "limit", 1, max_reconsume_times=2),
        "no tries": raw.back(offset, "no-tries", 1, max_reconsume_times=0),
        "the group's limit": raw.back(offset, "one"),
        "no retry queues": raw.back(offset, "none"),
        "a group that may not consume": raw.back(offset, "closed"),
        "a unit": raw.back(offset, "unit", 1, unit_mode=True),
        "no group's name": raw.back(offset, "a b/c"),
        "nothing there": raw.back(10**12, "new"),
        "before the log": raw.back(-5, "new"),
    }
    raw.configure(b"autoCreateSubscriptionGroup=false\n")
    said["no such group"] = raw.back(offset, "unknown")
    said["a send of no such group"] = raw.send("%RETRY%unknown2", b"x", reconsume_times=1)
    raw.configure(b"autoCreateSubscriptionGroup=true\nbrokerPermission=4\n")
    said["no permission"] = raw.back(offset, "new")
    raw.configure(b"brokerPermission=6\n")
    wait_until(lambda: all(raw.records(f"%RETRY%{group}", 1) for group in ("new", "level", "high", "closed", "unit")), "all came")
    again = raw.records("%RETRY%level", 1)[0]
    said["once more"] = raw.back(again.physical_offset, "level")
    wait_until(lambda: len(raw.records("%RETRY%level", 1)) == 2, "it came once more")
    groups = ("new", "level", "high", "given", "limit", "no-tries", "closed", "unit")
    found = {
        topic: [shown(record, {offset: "m"}) for record in raw.records(topic, 1)]
        for group in groups
        for topic in (f"%RETRY%{group}", f"%DLQ%{group}")
    }
    return {"said": said, "found": found}


def scene_of_retry_sends(raw: Raw) -> dict[str, object]:
    """The client's own way: a send to the retry topic."""
    said = {}
    for name, tried, limit in (("r1", 1, 3), ("r3", 3, 3), ("r4", 4, 3), ("r16", 16, None), ("r17", 17, None)):
        given = {"reconsume_times": tried, "max_reconsume_times": limit}
        said[name] = raw.send("%RETRY%sent", name.encode(), properties={"DELAY": "1", "RETRY_TOPIC": "raw"}, **given)
    said["no default"] = raw.send("%RETRY%plain", b"plain", default_topic="nothing", properties={"RETRY_TOPIC": "raw"})
    batch = send_header("%RETRY%sent", batch=True)
    said["a batch"] = int(raw.ask(RequestCode.SEND_BATCH_MESSAGE, batch, b"x").code)
    wait_until(lambda: len(raw.records("%RETRY%sent")) == 3, "those that may be tried again came")
    topics = ("%RETRY%sent", "%DLQ%sent", "%RETRY%plain")
    found = {topic: {record.body: shown(record, {}) for record in raw.records(topic)} for topic in topics}
    return {"said": said, "found": found}


SCENES = (scene_of_delays, scene_of_topics_that_go, scene_of_send_backs, scene_of_retry_sends)


def test_both_brokers_make_the_same_of_the_same_requests(apache: Cluster, skyrocket: Cluster):
    theirs, ours = Raw(apache), Raw(skyrocket)
    for scene in SCENES:
        assert scene(ours) == scene(theirs), scene.__doc__
    made = {name for name in theirs.topics() if name.removeprefix("%RETRY%").removeprefix("%DLQ%").isalpha()}
    assert made
    assert {name: ours.topics().get(name) for name in made} == {name: theirs.topics()[name] for name in made}
