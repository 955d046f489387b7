"""Apache's Java client 5.5.0 and 4.9.8 against a running `skyrocket run`: every scene that a program of theirs plays.

The same scenes run against Apache's own nameserver and broker, so that what is expected here is what Apache does.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import NamedTuple

import pytest

from tests.support.apache.cluster import NO_TIMERS, ApacheCluster
from tests.support.apache.java_scenes import Cluster, Got, Out, Refused, Scenes, Sent
from tests.support.processes.skyrocket_process import Skyrocket, registered
from tests.support.waiting import wait_until

pytestmark = pytest.mark.interop

# A member of a group learns of another's coming and going from the broker, or never: it does not look by itself in this time.
NO_LOOKING_AROUND = ["-Drocketmq.client.rebalance.waitInterval=3600000", "-Drocketmq.client.rebalance.minInterval=50"]
BINARY = "-Drocketmq.serialize.type=ROCKETMQ"
SHORT_HEARTBEATS = "-Dcom.rocketmq.heartbeat.v2=true"
SECOND_PORT = "-Dcom.rocketmq.sendMessageWithVIPChannel=true"


class Way(NamedTuple):
    """A client, and whom it talks to."""

    server: str
    client_version: str
    options: list[str]


WAYS = {
    "apache": Way("apache", "5.5.0", NO_LOOKING_AROUND),
    "json": Way("skyrocket", "5.5.0", NO_LOOKING_AROUND),
    "binary": Way("skyrocket", "5.5.0", [*NO_LOOKING_AROUND, BINARY, SHORT_HEARTBEATS, SECOND_PORT]),
    "old": Way("skyrocket", "4.9.8", []),
    "apache-old": Way("apache", "4.9.8", []),
}


def with_clients(*ways: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("client", ways, indirect=True, scope="module")


every_client = with_clients("apache", "json", "binary", "old", "apache-old")
client_5 = with_clients("apache", "json", "binary")
only_ours = with_clients("json", "binary")


@pytest.fixture(scope="module")
def skyrocket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Skyrocket]:
    with Skyrocket(tmp_path_factory.mktemp("skyrocket")) as running:
        yield running
        running.stop()
        assert running.complaints() == [], running.log_tail(200)


@pytest.fixture(scope="module")
def client(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scenes]:
    way = WAYS[request.param]
    home = tmp_path_factory.mktemp(request.param)
    with ExitStack() as stack:
        if way.server == "apache":
            theirs = stack.enter_context(ApacheCluster(home))
            theirs.broker(home / "store", {"mappedFileSizeCommitLog": 16_777_216, "brokerName": "broker-a", **NO_TIMERS})
            cluster = Cluster(theirs.nameserver, registered(theirs.nameserver)[0], "Test")
        else:
            ours = request.getfixturevalue("skyrocket")
            cluster = Cluster(ours.nameserver, ours.address, "DefaultCluster")
        scenes = Scenes(home / "scenes", request.param, cluster, way.options, way.client_version)
        try:
            yield scenes
        finally:
            scenes.kill()


def numbered(messages: int, of: str = "message") -> list[Out]:
    return [Out(f"{of} {i}".encode()) for i in range(messages)]


def bodies(messages: list[Got] | list[Out]) -> list[bytes]:
    return sorted(message.body for message in messages)


def nothing_more(client: Scenes, consumer: str, messages: int) -> list[Got]:
    """All that a push consumer was given, after a little more time than it needs."""
    client.heard(consumer, messages)
    return client.heard(consumer, messages + 1, wait_s=0.3)


@every_client
def test_the_client_speaks_as_it_was_told_to(client: Scenes):
    assert client.ask("speaks") == [["ROCKETMQ" if client.label == "binary" else "JSON"]]


# --- sending


@every_client
def test_what_is_sent_in_any_way_is_received_once_and_as_it_was(client: Scenes):
    topic = client.topic("ways")
    ways = {
        how: [
            Out(f"{how} {i}".encode(), f"Tag{i}", f"key-{how}-{i} other-{i}", flag=i, properties={"how": how, "number": str(i)})
            for i in range(count)
        ]
        for how, count in {"sync": 5, "async": 20, "oneway": 5, "batch": 4}.items()
    }
    sent = {how: client.send(topic, *messages, how=how) for how, messages in ways.items()}
    assert [len(results) for results in sent.values()] == [5, 20, 0, 1]
    got = nothing_more(client, client.push(client.named("group"), topic), 34)
    assert bodies(got) == bodies([message for messages in ways.values() for message in messages])

    received = {message.body: message for message in got}
    for messages in ways.values():
        for out in messages:
            message = received[out.body]
            assert (message.topic, message.flag, message.reconsumed) == (topic, out.flag, 0)
            assert message.properties["TAGS"] == out.tags
            assert message.properties["KEYS"] == out.keys
            assert message.properties.items() >= out.properties.items()
            assert 0 < message.born_ms <= message.stored_ms
    for how in ("sync", "async"):
        for out, result in zip(ways[how], sent[how], strict=True):
            message = received[out.body]
            assert (message.queue, message.offset, message.message_id) == (result.queue, result.offset, result.message_id)
    (batch,) = sent["batch"]
    ids = batch.message_id.split(",")
    together = [received[out.body] for out in ways["batch"]]
    assert [(m.queue, m.offset, m.message_id) for m in together] == [(batch.queue, batch.offset + i, ids[i]) for i in range(4)]
    assert len(set(batch.offset_id.split(","))) == 4


@client_5
def test_the_broker_adds_to_a_message_what_apaches_adds(client: Scenes):
    topic = client.topic("added", queues=1)
    client.send(topic, Out(b"alone", properties={"mine": "yes"}))
    client.send(topic, Out(b"in company", properties={"mine": "yes"}), Out(b"too"), how="batch")
    alone, in_company, too = client.heard(client.push(client.named("group"), topic, listener="orderly"), 3)
    by_broker = {"CLUSTER": client.cluster.name, "MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}
    by_client = {"MIN_OFFSET": "0", "WAIT": "true"}
    for message, expected in (
        (alone, {**by_broker, **by_client, "mine": "yes"}),
        (in_company, {**by_client, "mine": "yes"}),
        (too, by_client),
    ):
        varying = ("UNIQ_KEY", "MAX_OFFSET", "CONSUME_START_TIME")
        assert {name: value for name, value in message.properties.items() if name not in varying} == expected


@every_client
def test_names_keys_and_bodies_in_any_script_come_back(client: Scenes):
    topic = client.topic("scripts")
    messages = [
        Out("Привет".encode(), "тег", "ключ один", properties={"имя": "значение"}),
        Out("你好，世界".encode(), "标签", "键", properties={"属性": "值 with blanks"}),
        Out("🚀 ünïcödé".encode(), "🏷", "🔑", properties={"emoji🙂": "👩‍👩‍👧", 'quote"s\\': '{"json": [1]}\n\t'}),
        Out(bytes(range(256)), properties={"equals=": "a=b&c;d|e"}),
    ]
    for how in ("sync", "async", "oneway", "batch"):
        client.send(topic, *[out._replace(flag=len(how)) for out in messages], how=how)
    got = nothing_more(client, client.push(client.named("group"), topic), 16)
    assert len(got) == 16
    for out in messages:
        for same in [message for message in got if message.body == out.body]:
            assert same.properties.get("TAGS", "") == out.tags
            assert same.properties.get("KEYS", "") == out.keys
            assert same.properties.items() >= out.properties.items()
    assert bodies(got) == sorted(out.body for out in messages * 4)


@every_client
def test_large_bodies_travel_compressed(client: Scenes):
    topic = client.topic("compressed")
    kinds = {"": 3, "ZLIB": 3, "LZ4": 1, "ZSTD": 2}  # the number is in bits 8 to 10 of the system flag
    if client.label.endswith("old"):
        kinds = {"": 3}  # it has no choice
    large = {kind: Out(f"{kind} ".encode() + b"as often as you like " * 5000) for kind in kinds}
    small = Out(b"small" * 100)
    for kind, out in large.items():
        producer = client.producer(compressOver=4096, **({"compressType": kind} if kind else {}))
        client.send(topic, out, small, by=producer)
    got = nothing_more(client, client.push(client.named("group"), topic), 2 * len(kinds))
    assert bodies(got) == bodies([*large.values(), *[small] * len(kinds)])
    for message in got:
        assert message.store_size < 2000, "stored as small as it was sent"
        kind = kinds.get(message.body.split(b" ")[0].decode(), 0)
        assert message.sys_flag >> 8 & 7 == kind, "the kind is left for readers to see"


@every_client
def test_messages_for_a_chosen_queue_are_in_it_in_their_order(client: Scenes):
    topic = client.topic("chosen")
    offset = 0
    for how in ("sync", "async", "batch"):
        results = client.send(topic, *numbered(10, how), how=how, queue=2)
        assert {result.queue for result in results} == {2}
        assert sorted(r.offset for r in results) == list(range(offset, offset + 10))[: len(results)]
        offset += 10
    client.send(topic, *numbered(10, "oneway"), how="oneway", queue=2)
    wait_until(lambda: client.numbers("offsets", client.shared, topic, 2)[:2] == [0, 40], "all are stored")
    assert client.numbers("offsets", client.shared, topic, 1)[:2] == [0, 0]
    got = client.heard(client.push(client.named("group"), topic, listener="orderly"), 40)
    assert [(message.queue, message.offset) for message in got] == [(2, offset) for offset in range(40)]
    assert [message.body for message in got if message.body.startswith(b"sync")] == bodies(numbered(10, "sync"))


@client_5
def test_a_topic_is_made_by_sending_to_it(client: Scenes):
    topic = client.named("unheard-of")
    sent = client.send(topic, *numbered(8))
    assert client.numbers("writable", client.shared, topic) == [0, 1, 2, 3]
    assert {result.queue for result in sent} == {0, 1, 2, 3}, "the producer takes the queues in turn"
    assert bodies(nothing_more(client, client.push(client.named("group"), topic), 8)) == bodies(numbered(8))


@client_5
def test_what_may_not_be_sent_is_refused_with_the_same_exception(client: Scenes):
    topic = client.topic("refusals")
    generous = client.producer(maxSize=64 * 1024 * 1024, compressOver=64 * 1024 * 1024)
    noise = random.Random(5).randbytes(4 * 1024 * 1024)

    def kind_and_code(topic: str, out: Out, queue: str = "-") -> tuple[str, int]:
        (result,) = client.try_to_send(topic, out, by=generous, queue=queue)
        assert isinstance(result, Refused), result
        return result.kind, result.code

    assert kind_and_code(topic, Out(noise + b"!")) == ("MQBrokerException", 13)
    assert kind_and_code(topic, Out(b"", tags="none")) == ("MQClientException", 13)
    assert kind_and_code(topic, Out(b"x", properties={"long": "x" * 33_000})) == ("MQBrokerException", 13)
    assert kind_and_code(topic, Out(b"x"), "=99") == ("MQBrokerException", 29)
    assert kind_and_code("no/slashes", Out(b"x"))[0] == "MQClientException"
    assert kind_and_code("..", Out(b"x"))[0] == "MQClientException"
    assert kind_and_code("x" * 128, Out(b"x"))[0] == "MQClientException"
    assert kind_and_code("SCHEDULE_TOPIC_XXXX", Out(b"x"))[0] == "MQClientException"

    largest = client.send(topic, Out(noise), by=generous, queue=3)  # and the connection goes on
    assert [(result.queue, result.offset) for result in largest] == [(3, 0)]
    (got,) = client.heard(client.push(client.named("group"), topic), 1)
    assert got.body == noise


@client_5
def test_a_namespace_keeps_topics_and_groups_apart(client: Scenes):
    topic, group = client.named("spaced"), client.named("group")
    spaced = client.producer(namespace="shop")
    client.send(topic, *numbered(4, "inside"), by=spaced)
    client.send(topic, *numbered(4, "outside"))
    inside, outside = client.push(group, topic, namespace="shop"), client.push(group, topic)
    assert bodies(nothing_more(client, inside, 4)) == bodies(numbered(4, "inside"))
    assert bodies(nothing_more(client, outside, 4)) == bodies(numbered(4, "outside"))
    client.ask("leave", inside, outside)


@with_clients("apache", "json")
def test_a_traced_producer_tells_of_its_messages(client: Scenes):
    topic = client.topic("traced")
    sent = client.send(topic, *numbered(4), by=client.producer(traced="yes"))
    wait_until(lambda: client.is_routed("RMQ_SYS_TRACE_TOPIC"), "the topic of traces is made")
    consumer = client.lite(client.named("group"), "RMQ_SYS_TRACE_TOPIC")
    told = b""
    for _ in range(60):
        told += b"".join(message.body for message in client.poll(consumer, 1, wait_s=1))
        if all(result.message_id.encode() in told for result in sent):
            break
    assert told.count(b"Pub\x01") == 4
    client.ask("leave", consumer)


# --- push consumers


@every_client
def test_a_consumer_of_some_tags_gets_only_those(client: Scenes):
    topic = client.topic("tags")
    out = [Out(f"{tag} {i}".encode(), tag) for i in range(10) for tag in ("TagA", "TagB", "TagC", "")]
    client.send(topic, *out, how="async")
    some = client.push(client.named("group"), topic, "TagA || TagB")
    one = client.push(client.named("group"), topic, "TagC")
    every = client.push(client.named("group"), topic)
    assert bodies(nothing_more(client, some, 20)) == bodies([o for o in out if o.tags in ("TagA", "TagB")])
    assert bodies(nothing_more(client, one, 10)) == bodies([o for o in out if o.tags == "TagC"])
    assert bodies(nothing_more(client, every, 40)) == bodies(out)
    client.send(topic, *[Out(f"later {tag}".encode(), tag) for tag in ("TagA", "TagB", "TagC")])  # now they wait for messages
    assert bodies(client.heard(one, 11))[-1] == b"later TagC"
    assert bodies(nothing_more(client, some, 22)[20:]) == [b"later TagA", b"later TagB"]
    client.ask("leave", some, one, every)


@only_ours
def test_many_messages_come_in_many_pulls(client: Scenes):
    topic = client.topic("many")
    out = [Out(f"{i} ".encode() + bytes([i % 256]) * (i * 7 % 4000)) for i in range(600)]  # 1.2 MB: more than a pull's bytes
    for at in range(0, 600, 200):
        client.send(topic, *out[at : at + 200], how="async")
    some, orderly = client.push(client.named("group"), topic), client.push(client.named("group"), topic, listener="orderly")
    assert bodies(nothing_more(client, some, 600)) == bodies(out)
    got = nothing_more(client, orderly, 600)
    assert bodies(got) == bodies(out)
    for queue in range(4):
        offsets = [message.offset for message in got if message.queue == queue]
        assert offsets == list(range(len(offsets)))
    client.ask("leave", some, orderly)


@only_ours  # Apache's broker and the client pass over what comes while the last pull with the old tags waits
def test_a_consumer_that_subscribes_to_more_gets_more(client: Scenes):
    topic = client.topic("subscribed", queues=1)
    client.send(topic, *[Out(f"{tag} {i}".encode(), tag) for i in range(4) for tag in ("TagA", "TagB")])
    group = client.named("group")
    consumer = client.push(group, topic, "TagA")
    client.heard(consumer, 4)
    client.ask("subscribe", consumer, topic, b"TagA || TagB".hex())
    wait_until(
        lambda: client.is_subscribed(group, b"TagA || TagB"), "the broker knows"
    )  # what comes before that is not wanted yet
    client.send(topic, Out(b"more", "TagB"), Out(b"still more", "TagB"))
    wanted = [b"TagA 0", b"TagA 1", b"TagA 2", b"TagA 3", b"more", b"still more"]
    assert bodies(nothing_more(client, consumer, 6)) == wanted
    client.ask("leave", consumer)


@client_5
def test_a_rare_tag_is_found_behind_many_others(client: Scenes):
    topic = client.topic("rare", queues=1)
    client.send(topic, *[Out(b"x", "often") for _ in range(5000)], how="batch")
    client.send(topic, Out(b"found", "rare"))
    consumer = client.push(client.named("group"), topic, "rare")
    began = time.monotonic()
    assert [(message.offset, message.body) for message in client.heard(consumer, 1)] == [(5000, b"found")]
    assert time.monotonic() - began < 10, "the client comes again at once, as long as there is more to look at"
    client.ask("leave", consumer)


@every_client
def test_an_orderly_listener_has_each_queue_in_order_and_one_at_a_time(client: Scenes):
    topic = client.topic("orderly")
    before = client.numbers("overlaps")
    for queue in range(4):
        client.send(topic, *numbered(25, f"queue {queue}"), queue=queue, how="batch")
    consumer = client.push(client.named("group"), topic, listener="orderly", slowMs=1)
    got = nothing_more(client, consumer, 100)
    for queue in range(4):
        of_queue = [message for message in got if message.queue == queue]
        assert [message.offset for message in of_queue] == list(range(25))
        assert [message.body for message in of_queue] == [out.body for out in numbered(25, f"queue {queue}")]
    assert client.numbers("overlaps") == before
    client.ask("leave", consumer)


@client_5
@pytest.mark.parametrize("listener", ["concurrently", "orderly"])
def test_members_come_and_go_and_every_message_is_consumed_once(client: Scenes, listener: str):
    topic, group = client.topic("members"), client.named("group")
    before = client.numbers("overlaps")
    everything = {0, 1, 2, 3}
    first = client.push(group, topic, listener=listener)
    wait_until(lambda: client.share(first) == everything, "the only member has every queue")
    client.send(topic, *numbered(40, "alone"), how="async")
    assert bodies(client.heard(first, 40)) == bodies(numbered(40, "alone"))
    _wait_until_settled(client, group, topic, 40, [first])

    second = client.push(group, topic, listener=listener)
    wait_until(lambda: len(client.share(first)) == len(client.share(second)) == 2, "two members have two queues each")
    assert client.share(first) | client.share(second) == everything
    client.send(topic, *numbered(40, "together"), how="async")
    wait_until(lambda: len(client.heard(first, 0)) + len(client.heard(second, 0)) >= 80, "both consume")
    by_second = client.heard(second, 0)
    assert {message.queue for message in by_second} == client.share(second)
    together = client.heard(first, 0)[40:] + by_second
    assert bodies(together) == bodies(numbered(40, "together"))
    _wait_until_settled(client, group, topic, 80, [first, second])

    client.ask("leave", first)
    wait_until(lambda: client.share(second) == everything, "the member that stays has every queue")
    client.send(topic, *numbered(40, "alone again"), how="async")
    client.heard(second, len(by_second) + 40)
    assert bodies(nothing_more(client, second, len(by_second) + 40)[len(by_second) :]) == bodies(numbered(40, "alone again"))
    assert client.numbers("overlaps") == before
    client.ask("leave", second)


def _wait_until_settled(client: Scenes, group: str, topic: str, messages: int, members: list[str]) -> None:
    """Wait until the broker knows that a group has consumed so many: who takes over a queue goes on from there."""

    def is_known() -> bool:
        for member in members:
            client.ask("persist", member)
        return sum(client.committed_by(group, topic, queue) or 0 for queue in range(4)) == messages

    wait_until(is_known, "offsets are committed")


@client_5
def test_broadcasting_gives_every_message_to_every_member(client: Scenes):
    topic, group = client.topic("broadcast"), client.named("group")
    members = [client.push(group, topic, model="BROADCASTING") for _ in range(2)]
    for member in members:
        wait_until(lambda member=member: client.share(member) == {0, 1, 2, 3}, "each member has every queue")
    client.send(topic, *numbered(40), how="async")
    for member in members:
        assert bodies(nothing_more(client, member, 40)) == bodies(numbered(40))
    client.ask("leave", *members)


@client_5
def test_where_a_new_group_begins(client: Scenes):
    topic = client.topic("beginnings", queues=1)
    client.send(topic, *numbered(3, "old"), how="batch")
    time.sleep(2)  # the client states a time in whole seconds
    stamp = time.strftime("%Y%m%d%H%M%S")
    client.send(topic, *numbered(3, "new"), how="batch")

    consumers = [
        client.push(client.named("group"), topic, model=model, **{"from": begin})
        for model in ("BROADCASTING", "CLUSTERING")
        for begin in ("first", stamp, "last")
    ]
    for consumer in consumers:
        wait_until(lambda consumer=consumer: client.share(consumer) == {0}, "it has its queue")
    client.send(topic, Out(b"newest"))
    expected = [0, 3, 6, 0, 0, 0]  # where the broker keeps offsets, a young queue is consumed whole, whatever the group says
    for consumer, begin_offset in zip(consumers, expected, strict=True):
        got = nothing_more(client, consumer, 7 - begin_offset)
        assert sorted(message.offset for message in got) == list(range(begin_offset, 7)), consumer
    client.ask("leave", *consumers)


@with_clients("json", "binary", "old")
def test_a_new_group_gets_what_is_sent_right_after_its_start(client: Scenes):
    """Apache's broker loses some of these when the machine is busy: its client asks for the end of an empty queue too late."""
    for _ in range(10):
        topic = client.topic("young", queues=8)
        consumer = client.push(client.named("group"), topic, **{"from": "last"})
        client.send(topic, *numbered(16))
        assert bodies(client.heard(consumer, 16, wait_s=20)) == bodies(numbered(16))
        client.ask("leave", consumer)


@client_5
def test_a_waiting_consumer_gets_a_message_at_once(client: Scenes):
    topic = client.topic("prompt", queues=1)
    consumer = client.push(client.named("group"), topic)
    client.send(topic, Out(b"first"))
    client.heard(consumer, 1)
    seconds = []
    for i in range(4):
        time.sleep(0.5)  # its next pull is with the broker now
        began = time.monotonic()
        client.send(topic, Out(f"prompt {i}".encode()))
        client.heard(consumer, 2 + i)
        seconds.append(time.monotonic() - began)
    assert min(seconds) < 1, f"a look every 5 s would not be as quick: {seconds}"
    assert len(client.heard(consumer, 5)) == 5
    client.ask("leave", consumer)


@every_client
def test_a_consumer_started_again_goes_on_where_its_group_was(client: Scenes):
    topic, group = client.topic("again"), client.named("group")
    client.send(topic, *numbered(20, "before"))
    consumer = client.push(group, topic)
    assert bodies(client.heard(consumer, 20)) == bodies(numbered(20, "before"))
    client.ask("stop", consumer)
    client.send(topic, *numbered(20, "meanwhile"))
    consumer = client.push(group, topic)
    assert bodies(nothing_more(client, consumer, 20)) == bodies(numbered(20, "meanwhile"))
    client.ask("leave", consumer)


# --- lite pull consumers


@every_client
def test_a_lite_pull_consumer_subscribes_polls_and_commits(client: Scenes):
    topic, group = client.topic("lite", queues=2), client.named("group")
    for queue in (0, 1):
        client.send(topic, *[Out(f"{queue} {i}".encode(), "even" if i % 2 == 0 else "odd") for i in range(10)], queue=queue)
    consumer = client.lite(group, topic)
    got = client.poll(consumer, 20)
    assert bodies(got) == sorted(f"{queue} {i}".encode() for queue in (0, 1) for i in range(10))
    for queue in (0, 1):
        assert [message.offset for message in got if message.queue == queue] == list(range(10))
    client.ask("commit", consumer)
    assert client.numbers("committed", consumer, topic, 0, 1) == [10, 10]
    wait_until(lambda: [client.committed_by(group, topic, queue) for queue in (0, 1)] == [10, 10], "what was committed arrives")
    client.ask("stop", consumer)

    client.send(topic, Out(b"later"), queue=1)
    consumer = client.lite(group, topic)
    assert [(message.queue, message.offset) for message in client.poll(consumer, 1)] == [(1, 10)]
    assert client.poll(consumer, 1, wait_s=0.5) == []
    evens = client.lite(client.named("group"), topic, "even")
    assert bodies(client.poll(evens, 10)) == sorted(f"{queue} {i}".encode() for queue in (0, 1) for i in range(0, 10, 2))
    client.ask("leave", consumer, evens)


@every_client
def test_a_lite_pull_consumer_goes_where_it_wants_in_the_queues_it_takes(client: Scenes):
    topic, group = client.topic("seek", queues=3), client.named("group")
    for queue in range(3):
        client.send(topic, *numbered(10, f"queue {queue}"), queue=queue, how="batch")
    consumer = client.lite(group)
    client.ask("assign", consumer, topic, 0, 2)

    def offsets(messages: int, wait_s: float = 60) -> list[tuple[int, int]]:
        return sorted((message.queue, message.offset) for message in client.poll(consumer, messages, wait_s))

    assert offsets(20) == [(queue, offset) for queue in (0, 2) for offset in range(10)]
    client.ask("seek", consumer, topic, 2, 4)
    assert offsets(6) == [(2, offset) for offset in range(4, 10)]
    client.ask("seek", consumer, topic, 0, "begin")
    assert offsets(10) == [(0, offset) for offset in range(10)]
    client.ask("seek", consumer, topic, 0, 3)
    client.ask("seek", consumer, topic, 0, "end")
    client.send(topic, Out(b"new"), queue=0)
    assert offsets(1) == [(0, 10)]
    assert client.numbers("committed", consumer, topic, 0, 2)[0] in (-1, 0)
    client.ask("commit", consumer)
    assert client.numbers("committed", consumer, topic, 0, 2) == [11, 10]
    client.ask("leave", consumer)


# --- offsets


@client_5
def test_offsets_are_found_by_time(client: Scenes):
    topic = client.topic("times", queues=2)
    for i in range(4):
        client.send(topic, *numbered(2, f"pair {i}"), queue=1, how="batch")
        time.sleep(0.03)
    got = client.heard(client.push(client.named("group"), topic, listener="orderly"), 8)
    stored = [message.stored_ms for message in got]
    assert [message.offset for message in got] == list(range(8))
    assert [stored[i] for i in (0, 2, 4, 6)] == [stored[i] for i in (1, 3, 5, 7)]
    assert client.numbers("offsets", client.shared, topic, 1) == [0, 8, stored[0]]
    assert client.numbers("offsets", client.shared, topic, 0) == [0, 0, -1]

    times = [stored[0] - 1000, stored[0], stored[2] - 1, stored[2], stored[2] + 1, stored[6], stored[7] + 1, stored[7] + 60_000]
    lower = [0, 0, 2, 2, 4, 6, 8, 8]
    assert client.numbers("search", client.shared, topic, 1, "-", *times) == lower
    assert client.numbers("search", client.shared, topic, 0, "-", *times) == [0] * 8
    assert client.numbers("search", client.shared, topic, 1, "LOWER", *times) == lower
    assert client.numbers("search", client.shared, topic, 1, "UPPER", *times) == [0, 1, 1, 3, 3, 7, 7, 7]


# --- the broker goes and comes back


@only_ours
def test_producers_and_consumers_go_on_when_the_broker_was_started_again(client: Scenes, skyrocket: Skyrocket):
    topic = client.topic("restart")
    producer = client.producer(retries=0)
    group, ordered = client.named("group"), client.named("ordered")
    consumers = [client.push(group, topic), client.push(ordered, topic, listener="orderly")]
    lite = client.lite(client.named("lite"), topic)
    client.send(topic, *numbered(20, "before"), by=producer)
    for consumer in consumers:
        assert bodies(client.heard(consumer, 20)) == bodies(numbered(20, "before"))
    assert bodies(client.poll(lite, 20)) == bodies(numbered(20, "before"))
    for each, consumer in zip((group, ordered), consumers, strict=True):
        _wait_until_settled(client, each, topic, 20, [consumer])

    skyrocket.stop()
    (result,) = client.try_to_send(topic, Out(b"to nobody"), by=producer)
    assert isinstance(result, Refused)
    skyrocket.start()

    def gets_through(out: Out) -> bool:
        (result,) = client.try_to_send(topic, out, by=producer)
        return isinstance(result, Sent)

    for out in numbered(20, "after"):
        wait_until(lambda out=out: gets_through(out), "the producer reaches the broker again")
    everything = bodies(numbered(20, "before") + numbered(20, "after"))
    for consumer in consumers:
        assert bodies(nothing_more(client, consumer, 40)) == everything
    assert bodies(client.poll(lite, 20)) == bodies(numbered(20, "after"))
    client.ask("leave", *consumers, lite)
