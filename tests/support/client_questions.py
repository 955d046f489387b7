"""Questions about the parts of a client on which members of a group, or client and broker, must agree; and our answers.

A question is a dict of plain values, as java/ClientParts.java reads them; the same seed gives the same questions. Some hundreds
with Apache's answers are in golden/client_answers.jsonl, so that tests without Java have them too.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from skyrocket.client.consumer.strategies import (
    Averagely,
    Circle,
    Configured,
    ConsistentHash,
    MachineRoom,
    MachineRoomNearby,
    RebalanceError,
    Strategy,
)
from skyrocket.client.queues import Queue, queue_order
from skyrocket.client.session.credentials import Credentials, sign_fields
from skyrocket.client.session.namespaces import with_namespace, without_namespace
from skyrocket.protocol.message.tags import java_hash

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "client_answers.jsonl"
LETTERS = "abcXYZ09_-%|.é語🚀\uffee "
BROKERS = ["broker-a", "broker-b", "room1@a", "room1@b", "room2@a", "room3@", "@a", "room1@a@", "room1@@a", "@", "r@a@b", ""]
ROOMS = ["room1", "room2", "room3", "", "r"]
SYSTEM_NAMES = [
    "TBW102",
    "SCHEDULE_TOPIC_XXXX",
    "BenchmarkTest",
    "RMQ_SYS_TRANS_HALF_TOPIC",
    "RMQ_SYS_TRACE_TOPIC",
    "RMQ_SYS_TRANS_OP_HALF_TOPIC",
    "TRANS_CHECK_MAX_TIME_TOPIC",
    "SELF_TEST_TOPIC",
    "OFFSET_MOVED_EVENT",
    "CHECKPOINT_TOPIC",
    "rmq_sys_wheel_timer",
    "CID_RMQ_SYS_TRANS",
    "DefaultCluster_REPLY_TOPIC",
    "TOOLS_CONSUMER",
]


# --- questions


def questions(seed: int, allocations: int, others: int) -> Iterator[dict[str, Any]]:
    chance = random.Random(seed)
    for _ in range(allocations):
        yield some_allocation(chance)
    for _ in range(others):
        yield {"ask": "order", "queues": some_queues(chance)}
        yield some_signature(chance)
        yield some_namespace(chance)


def some_text(chance: random.Random, longest: int) -> str:
    return "".join(chance.choices(LETTERS, k=chance.randint(1, longest)))


def some_queues(chance: random.Random) -> list[list[Any]]:
    """As a rule those of one topic, sorted, each once; now and then not."""
    topic = some_text(chance, 8)
    if chance.random() < 0.2:
        return [
            [some_text(chance, 2), chance.choice([some_text(chance, 2), *BROKERS]), chance.randint(0, 12)]
            for _ in range(chance.randint(0, 10))
        ]
    brokers = sorted(chance.sample(BROKERS, chance.randint(1, 5)))
    return [[topic, broker, number] for broker in brokers for number in range(chance.choice((0, 1, 2, 4, 8)))]


def some_ids(chance: random.Random) -> list[str]:
    hosts = ("", "room1@", "room2@", "room9@", "172.17.0.1@")
    ids = [
        f"{chance.choice(hosts)}{chance.choice((some_text(chance, 4), 'pid'))}#{number}"
        for number in range(chance.choice((0, 1, 1, 2, 3, 5, 8, 20)))
    ]
    if ids and chance.random() < 0.1:
        ids.append(chance.choice(ids))
    return ids if chance.random() < 0.1 else sorted(ids)


def some_strategy(chance: random.Random, depth: int = 0) -> dict[str, Any]:
    kind = chance.choice(("averagely", "circle", "configured", "room", "nearby", "hash"))
    if kind == "configured":
        return {"kind": kind, "queues": some_queues(chance)}
    if kind == "room":
        return {"kind": kind, "rooms": chance.sample(ROOMS, chance.randint(0, 5))}
    if kind == "nearby":
        return {"kind": kind, "within": {"kind": "averagely"} if depth else some_strategy(chance, depth + 1)}
    if kind == "hash":
        # A ring of few places (0: MD5's four thousand million), so that members and queues meet at one.
        return {"kind": kind, "points": chance.choice((0, 1, 10, 10, 10, 100)), "places": chance.choice((0, 0, 7, 50))}
    return {"kind": kind}


def some_allocation(chance: random.Random) -> dict[str, Any]:
    strategy = some_strategy(chance)
    ids = some_ids(chance)
    if strategy["kind"] == "nearby" and chance.random() < 0.8:
        ids = [one if "@" in one else f"room1@{one}" for one in ids]
    queues = some_queues(chance)
    if strategy["kind"] == "nearby" and chance.random() < 0.8:
        queues = [[topic, broker if "@" in broker[1:] else f"room2@{broker}", number] for topic, broker, number in queues]
    me = chance.choice(ids) if ids and chance.random() < 0.95 else chance.choice(("", "a stranger", "room1@stranger"))
    return {"ask": "allocate", "strategy": strategy, "me": me, "queues": queues, "ids": ids}


def some_signature(chance: random.Random) -> dict[str, Any]:
    names = ["topic", "queueId", "a", "Z", "AccessKey", "Signature", "SecurityToken", "T", "signature", some_text(chance, 5)]
    return {
        "ask": "sign",
        "fields": {name: some_text(chance, 20) for name in chance.sample(names, chance.randint(0, len(names)))},
        "body": chance.randbytes(chance.choice((0, 1, 100))).hex(),
        "access": some_text(chance, 12),
        "secret": some_text(chance, 90),
        "token": chance.choice((None, "", some_text(chance, 30))),
    }


def some_namespace(chance: random.Random) -> dict[str, Any]:
    """Namespaces without a % in them: Java takes those apart at the first %, wherever the namespace ends."""
    space = chance.choice(("", "shop", "MQ_INST_1", "s", "shop2"))
    name = chance.choice(("orders", "a%b", "%RETRY", "RETRY%a", "%", "", "shop", *SYSTEM_NAMES))
    name = chance.choice(("", "shop%", "MQ_INST_1%", "other%")) + name
    return {"ask": "namespace", "space": space, "name": chance.choice(("", "", "%RETRY%", "%DLQ%", "%RETRY%%DLQ%")) + name}


# --- our answers


def our_answer(question: dict[str, Any]) -> Any:
    return ANSWERS[question["ask"]](question)


def allocated(question: dict[str, Any]) -> Any:
    strategy = strategy_of(question["strategy"])
    try:
        mine = strategy.allocate("group", question["me"], queues_of(question["queues"]), question["ids"])
    except RebalanceError:
        return "refused"
    return {"name": strategy.name, "queues": [list(queue) for queue in mine]}


def strategy_of(given: dict[str, Any]) -> Strategy:
    match given["kind"]:
        case "averagely":
            return Averagely()
        case "circle":
            return Circle()
        case "configured":
            return Configured(queues_of(given["queues"]))
        case "room":
            return MachineRoom(given["rooms"])
        case "nearby":
            return MachineRoomNearby(lambda queue: room(queue.broker_name), room, strategy_of(given["within"]))
        case "hash":
            places = given["places"]
            return ConsistentHash(given["points"], (lambda text: java_hash(text) % places) if places else None)
        case kind:
            raise AssertionError(kind)


def room(name: str) -> str:
    before, at, _ = name.partition("@")
    return before if at else ""


def queues_of(given: list[list[Any]]) -> list[Queue]:
    return [Queue(*one) for one in given]


def ordered(question: dict[str, Any]) -> Any:
    return [list(queue) for queue in sorted(queues_of(question["queues"]), key=queue_order)]


def signed(question: dict[str, Any]) -> Any:
    credentials = Credentials(question["access"], question["secret"], question["token"])
    return sign_fields(question["fields"], bytes.fromhex(question["body"]), credentials)


def namespaced(question: dict[str, Any]) -> Any:
    space, name = question["space"], question["name"]
    return [with_namespace(space, name), without_namespace(space, name)]


ANSWERS = {"allocate": allocated, "order": ordered, "sign": signed, "namespace": namespaced}
