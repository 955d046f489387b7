"""The loads: what the generator is asked for, and the titles of their rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

BODY_BYTES, QUEUES, BATCH = 1024, 4, 32
TOPIC, TRANSACTION_TOPIC = "BenchTopic", "BenchTransactions"
JAVA_TOPIC = "BenchJava"
JAVA_TOPICS = {"TransactionProducer": "BenchJavaTransactions", "Delivery": "BenchJavaDelivery"}  # of programs with their own
MESSAGES_MAX = 200_000  # of a round: 240 MB in the log
PULL_SPAN = 10_000  # messages of each queue that pulls read again and again

GENERATOR, JAVA = "generator", "java"
SENDS, PULLS, TRANSACTIONS, PROGRAMS = "sends", "pulls", "transactions", "Java programs"


class Load(NamedTuple):
    """`options` are those of bench/loadgen, or of one of Apache's benchmark programs."""

    name: str
    title: str
    group: str
    mode: str
    options: Mapping[str, object]
    source: str = GENERATOR
    for_kafka: bool = False
    sync_flush: bool = False  # on servers that answer when a message is on the disk
    is_calm: bool = False  # its latency counts, not its rate
    in_quick: bool = False
    warm_up_s: float = 0.0  # what no other load warms up, in a JVM
    warm_up_options: Mapping[str, object] = {}

    @property
    def per_request(self) -> int:
        return BATCH if self.mode == "batch" else 1

    @property
    def topic(self) -> str:
        if self.source == JAVA:
            return JAVA_TOPICS.get(self.mode, JAVA_TOPIC)
        return TRANSACTION_TOPIC if self.mode == "transaction" else TOPIC


def _sends(connections: int, window: int, **more: object) -> dict[str, object]:
    return {"connections": connections, "window": window, **more}


LOADS = [
    Load("send-4x64", "4 connections × 64 in flight", SENDS, "send", _sends(4, 64), for_kafka=True, in_quick=True),
    Load("sync-16", "16 sync clients", SENDS, "send", _sends(16, 1), for_kafka=True, in_quick=True),
    Load("sync-64", "64 sync clients", SENDS, "send", _sends(64, 1), for_kafka=True, in_quick=True),
    Load("sync-1", "one sync client", SENDS, "send", _sends(1, 1), for_kafka=True, is_calm=True, in_quick=True),
    Load("batch-4x8", "batches of 32, 4 × 8", SENDS, "batch", _sends(4, 8), for_kafka=True, in_quick=True),
    Load("batch-4x64", "batches of 32, 4 × 64", SENDS, "batch", _sends(4, 64), for_kafka=True, in_quick=True),
    Load("binary-4x64", "binary headers, 4 × 64", SENDS, "send", _sends(4, 64, binary=1), in_quick=True),
    Load("old-code-4x64", "SEND_MESSAGE (10), 4 × 64", SENDS, "send", _sends(4, 64, code=10)),
    Load(
        "pull-tail",
        "4 consumers, newest messages",
        PULLS,
        "pull",
        {"connections": 4, "span": PULL_SPAN},
        for_kafka=True,
        in_quick=True,
    ),
    Load("pull-oldest", "4 consumers, oldest messages", PULLS, "pull", {"connections": 4, "span": PULL_SPAN, "oldest": 1}),
    Load(
        "delivery",
        "from send to delivery, 500 a second",
        PULLS,
        "delivery",
        {"connections": 2, "pace": 500},
        for_kafka=True,
        is_calm=True,
        in_quick=True,
        warm_up_s=4.0,
        warm_up_options={"pace": 5_000},
    ),
    Load(
        "java-delivery",
        "from send to delivery, Java's client, 500 a second",
        PULLS,
        "Delivery",
        {"pace": 500},
        JAVA,
        is_calm=True,
    ),
    Load("java-producer", "`Producer`, 64 threads", PROGRAMS, "Producer", {"-w": 64, "-s": BODY_BYTES}, JAVA),
    Load("java-consumer", "`Consumer`, beside that producer", PROGRAMS, "Consumer", {}, JAVA),
    Load(
        "java-batch",
        "`BatchProducer`, 16 threads, batches of 32",
        PROGRAMS,
        "BatchProducer",
        {"-w": 16, "-b": 32, "-s": BODY_BYTES},
        JAVA,
    ),
    # Last on these servers: from the first commit on, a thread of Apache's broker spins.
    Load(
        "transaction", "committed transactions, 4 × 16", TRANSACTIONS, "transaction", _sends(4, 16), in_quick=True, warm_up_s=6.0
    ),
    Load(
        "java-transaction",
        "`TransactionProducer`, 32 threads",
        PROGRAMS,
        "TransactionProducer",
        {"-w": 32, "-s": BODY_BYTES},
        JAVA,
    ),
    Load("sync-flush-1", "one sync client, SYNC_FLUSH", SENDS, "send", _sends(1, 1), sync_flush=True, is_calm=True),
    Load("sync-flush-16", "16 sync clients, SYNC_FLUSH", SENDS, "send", _sends(16, 1), sync_flush=True),
    Load("sync-flush-64", "64 sync clients, SYNC_FLUSH", SENDS, "send", _sends(64, 1), for_kafka=True, sync_flush=True),
]

BY_NAME = {load.name: load for load in LOADS}
