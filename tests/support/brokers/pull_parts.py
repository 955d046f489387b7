"""The pull path of a broker without sockets, threads or time: frames go into a connection, and its writes are recorded.

With `fast_path` false, every pull takes the general path.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

from skyrocket.broker.load.counters import Counters
from skyrocket.broker.load.slow_consumers import SlowConsumers
from skyrocket.broker.pull.checks import PullChecks
from skyrocket.broker.pull.cold_pulls import ColdPulls
from skyrocket.broker.pull.fast_path import PullFastPath
from skyrocket.broker.pull.handler import PullHandler
from skyrocket.broker.pull.read_split import ReadSplit
from skyrocket.broker.tables.consumer_offsets import ConsumerOffsets
from skyrocket.broker.tables.subscription_groups import SubscriptionGroupTable
from skyrocket.broker.tables.topics import TopicTable
from skyrocket.net.server import Server
from skyrocket.protocol.bodies import SubscriptionGroupConfig, TopicConfig
from skyrocket.protocol.command import Command, encode_command
from skyrocket.protocol.frame import FrameSplitter, Serialization, join_frame
from skyrocket.store.message_store import MessageStore
from tests.support.brokers.broker_context import a_context
from tests.support.brokers.running_broker import pull_header
from tests.support.brokers.send_parts import BEGIN_MS, SMALL, call_now, connected
from tests.support.stores.simulated_disk import SimulatedDisk
from tests.support.stores.store_messages import a_message

SETTINGS = replace(SMALL, property_filter=True, auto_create_group=False)
QUEUES = 3
MESSAGES = 150  # over all queues, in more than one segment and, for the first queue, more than one file of entries


class PullParts:
    def __init__(
        self, *, fast_path: bool, disk: SimulatedDisk | None = None, memory_bytes: int | None = None, **changes: Any
    ) -> None:
        self.now_ms = BEGIN_MS
        self.settings = replace(SETTINGS, **changes)
        self.store = MessageStore("store", self.settings.store_config(), files=disk or SimulatedDisk())
        self.store.open()
        self.topics = TopicTable(self._settings, self._wall_ms)
        self.topics.put_all(
            [
                TopicConfig(topic_name="orders", read_queue_nums=QUEUES, write_queue_nums=QUEUES, perm=6, topic_sys_flag=2),
                TopicConfig(topic_name="closed", read_queue_nums=QUEUES, write_queue_nums=QUEUES, perm=2),
            ]
        )
        self.groups = SubscriptionGroupTable(self._settings, self._wall_ms)
        self.groups.put_all(
            [SubscriptionGroupConfig(group_name="consumers"), SubscriptionGroupConfig(group_name="idle", consume_enable=False)]
        )
        self.offsets = ConsumerOffsets(self._wall_ms)
        self.counters = Counters(self._wall_ms)
        self.slow_consumers = SlowConsumers()
        context = a_context(
            self.store,
            self._settings,
            self._wall_ms,
            topics=self.topics,
            groups=self.groups,
            offsets=self.offsets,
            counters=self.counters,
            slow_consumers=self.slow_consumers,
        )
        checks = PullChecks(context)
        cold_pulls = ColdPulls(self.store.reads)
        read_split = ReadSplit(self._settings, memory_bytes)
        self.general = PullHandler(context, checks, cold_pulls, read_split)
        self.general.register(context.router)
        self.fast_path = PullFastPath(context, checks, cold_pulls, self.general, read_split)
        if fast_path:
            self.fast_path.register(context.router)
        self.server = Server(context.router, now_ms=self._wall_ms, call_soon=call_now)
        self.connection, self.transport = connected(self.server)

    def _settings(self) -> Any:
        return self.settings

    def _wall_ms(self) -> int:
        return self.now_ms

    def state(self) -> dict[str, Any]:
        """Return everything that is visible from outside."""
        get = self.counters.get
        return {
            "answers": FrameSplitter().feed(self.transport.written),
            "closed": self.transport.closed,
            "offsets": (self.offsets.for_slaves(), dict(self.offsets._pull_offsets)),
            "counted": (get.messages, get.size_bytes, get.times),
            "by group": {key: (one.messages, one.size_bytes, one.times) for key, one in self.counters.of_kind("get")},
            "behind": dict(self.slow_consumers._behind_bytes),
            "waiting": self.general.waiting,
        }


def a_filled_disk(seed: int = 1, messages: int = MESSAGES) -> SimulatedDisk:
    """Messages of `orders`, most of them in queue 0, with the tags red, blue and none."""
    disk, random = SimulatedDisk(), Random(seed)
    store = MessageStore("store", SETTINGS.store_config(), files=disk)
    store.open()
    for number in range(messages):
        queue_id, tags = random.choice([0, 0, 0, 1]), random.choice(["red", "blue", ""])
        body = random.randbytes(random.choice([0, 30, 300, 900]))
        store.append([a_message("orders", queue_id, body, tags=tags, unique=f"U{number}")], BEGIN_MS + number)
    store.close()
    return disk


def a_pull(opaque: int, offset: int, topic: str = "orders", flag: int = 0, code: int = 11, **given: Any) -> bytes:
    """A frame, as Java writes it."""
    serialization = given.pop("serialization", Serialization.JSON)
    fields = pull_header(topic, offset, **given).to_fields()
    return a_request(opaque, fields, flag, code, serialization)


def a_request(
    opaque: int, fields: dict[str, Any], flag: int = 0, code: int = 11, serialization: Serialization = Serialization.JSON
) -> bytes:
    if serialization is Serialization.ROCKETMQ:
        return encode_command(Command(code, opaque=opaque, flag=flag, fields=fields, serialization=serialization, version=495))
    named = ",".join(f'"{name}":"{value}"' for name, value in fields.items())
    start, end = f'{{"code":{code},"extFields":{{{named}}},"flag":{flag},', '"serializeTypeCurrentRPC":"JSON","version":495}'
    return join_frame(0, f'{start}"language":"JAVA","opaque":{opaque},{end}'.encode(), b"")
