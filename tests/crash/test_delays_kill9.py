"""A broker is killed with SIGKILL while it holds delayed messages: all of them arrive after the restart, and none early.

One data directory serves several broker processes. Each gets delayed messages; some delivered ones are sent back for a retry. The
seed chooses the time of the kill, mostly during deliveries.
"""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path

from skyrocket.protocol.command import Command
from skyrocket.protocol.headers import ConsumerSendMsgBackRequestHeader
from skyrocket.protocol.message.record import Record
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from tests.support.processes.load import Ended, Wire, pull_request, records, send_request
from tests.support.processes.skyrocket_process import Skyrocket

LIVES = 6
LEVELS_S = (1, 2, 3)
TOPIC, GROUP = "Delayed", "killed_consumers"
RETRY = f"%RETRY%{GROUP}"
ARRIVE_S_MAX = 60.0
SETTINGS = {"messageDelayLevel": " ".join(f"{level}s" for level in LEVELS_S), "flushConsumerOffsetInterval": 500}


def wall_ms() -> int:
    return time.time_ns() // 1_000_000


class Book:
    """What was sent, and when each message is due."""

    def __init__(self) -> None:
        self.due_ms: dict[bytes, int] = {}  # that may have been stored
        self.acknowledged: set[bytes] = set()
        self.back_ms: dict[bytes, int] = {}
        self.given_back: set[bytes] = set()

    def send(self, wire: Wire, rng: random.Random) -> None:
        level = rng.randrange(len(LEVELS_S)) + 1
        body = f"{len(self.due_ms)}".encode()
        self.due_ms[body] = wall_ms() + LEVELS_S[level - 1] * 1000
        answer = wire.ask(send_request(TOPIC, body, properties={"DELAY": str(level), "UNIQ_KEY": body.decode()}))
        assert answer.code == ResponseCode.SUCCESS, answer
        self.acknowledged.add(body)

    def give_back(self, wire: Wire, came: Record) -> None:
        self.back_ms.setdefault(came.body, wall_ms() + LEVELS_S[0] * 1000)
        header = ConsumerSendMsgBackRequestHeader(offset=came.physical_offset, group=GROUP, delay_level=1, origin_topic=TOPIC)
        answer = wire.ask(Command(RequestCode.CONSUMER_SEND_MSG_BACK, fields=header.to_fields()))
        assert answer.code == ResponseCode.SUCCESS, answer
        self.given_back.add(came.body)


def fetched(wire: Wire, topic: str) -> list[Record]:
    found: list[Record] = []
    while True:
        answer = wire.ask(pull_request(topic, len(found), consumer_group=GROUP))
        if answer.code != ResponseCode.SUCCESS:
            return found
        found += records(answer)


def live(broker: Skyrocket, book: Book, rng: random.Random) -> None:
    """Send and receive until another thread kills the broker."""
    killer = threading.Timer(rng.uniform(0.3, 2.5), broker.kill)
    killer.start()
    try:
        with Wire(broker.address) as wire:
            while True:
                for _ in range(rng.randrange(1, 20)):
                    book.send(wire, rng)
                came = fetched(wire, TOPIC)
                if came and rng.random() < 0.5:
                    book.give_back(wire, rng.choice(came[-20:]))
    except (Ended, OSError):
        pass
    killer.join()


def test_delayed_messages_survive_a_killed_broker_and_never_come_early(tmp_path: Path):
    rng = random.Random(9)
    book = Book()
    with Skyrocket(tmp_path, SETTINGS) as broker:
        for _ in range(LIVES):
            live(broker, book, rng)
            broker.start()
        assert len(book.acknowledged) > 100
        deadline = time.monotonic() + ARRIVE_S_MAX
        with Wire(broker.address) as wire:
            while True:
                came, again = fetched(wire, TOPIC), fetched(wire, RETRY)
                missing = book.acknowledged - {record.body for record in came}
                missing_again = book.given_back - {record.body for record in again}
                if not missing and not missing_again:
                    break
                assert time.monotonic() < deadline, f"{len(missing)} delayed and {len(missing_again)} retried messages never came"
                time.sleep(0.1)
        for record in came:
            early_ms = book.due_ms[record.body] - record.store_timestamp
            assert early_ms <= 0, f"message {record.body!r} came {early_ms} ms early"
        for record in again:
            early_ms = book.back_ms[record.body] - record.store_timestamp
            assert early_ms <= 0, f"message {record.body!r} came back {early_ms} ms early"
        broker.stop()
        assert broker.complaints() == [], broker.log_tail(100)
