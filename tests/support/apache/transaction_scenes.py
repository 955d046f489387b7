"""Apache's Java transaction producer in a JVM of its own (interop/java/TransactionScenes.java)."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import NamedTuple

from skyrocket.protocol.command import Command
from skyrocket.protocol.message.properties import NAME_END, VALUE_END
from skyrocket.protocol.message.record import Record, iterate_records
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from tests.support.apache.archive import program
from tests.support.apache.cluster import Client, JavaProcess, send_request
from tests.support.apache.java_scenes import Got, got, hexed
from tests.support.brokers.running_broker import pull_header
from tests.support.waiting import WAIT_S_MAX

JAVA = Path(__file__).resolve().parents[2] / "interop" / "java" / "TransactionScenes.java"
WAIT_MS_MAX = int(WAIT_S_MAX * 1000)
COMMIT, ROLLBACK, UNKNOWN = "COMMIT_MESSAGE", "ROLLBACK_MESSAGE", "UNKNOW"


class Transacted(NamedTuple):
    """The answer to a half message."""

    status: str
    queue: int
    offset: int
    message_id: str
    transaction_id: str
    outcome: str


class TransactionScenes(Client):
    def __init__(self, home: Path, nameserver: str, options: list[str], client_version: str = "5.5.0") -> None:
        arguments = ["-Xmx256m", *options, *program(JAVA, client_version), nameserver]
        JavaProcess.__init__(self, f"the Java client {client_version}", home, arguments, pipes=True)
        self._heard = b""
        self._numbers = count()

    def named(self, what: str) -> str:
        return f"{what}-{next(self._numbers)}"

    def producer(self, group: str) -> str:
        name = self.named("producer")
        self.ask("producer", name, group)
        return name

    def transact(
        self, producer: str, outcome: str, topic: str, body: str, tags: str = "", flag: int = 0, **more: str
    ) -> Transacted:
        properties = "".join(f"{name}{NAME_END}{value}{VALUE_END}" for name, value in more.items())
        texts = [hexed(text.encode()) for text in (topic, tags, body, properties)]
        (line,) = self.ask("transact", producer, outcome, texts[0], texts[1], flag, texts[2], texts[3])
        status, queue, offset, message_id, transaction_id, said = line
        return Transacted(status, int(queue), int(offset), message_id, transaction_id, said)

    def answer(self, outcome: str, *bodies: str) -> None:
        """Set the answer to the broker's checks from now on."""
        self.ask("answer", outcome, *(hexed(body.encode()) for body in bodies))

    def checks(self, messages: int = 0, wait_ms: int = WAIT_MS_MAX) -> list[Got]:
        """Wait for so many checks, and return all checks so far."""
        return [got(line) for line in self.ask("asked", messages, wait_ms)]

    def checks_of(self, body: str, wait_ms: int = WAIT_MS_MAX, times: int = 1) -> list[Got]:
        """Wait for so many checks of one message, and return them."""
        questions = 0
        while True:
            found = self.checks(questions, wait_ms)
            mine = [message for message in found if message.body == body.encode()]
            if len(mine) >= times or len(found) < questions:
                return mine
            questions = len(found) + 1

    def push(self, group: str, topic: str) -> str:
        name = self.named("push")
        self.ask("push", name, group, topic)
        return name

    def heard(self, consumer: str, messages: int, wait_ms: int = WAIT_MS_MAX) -> list[Got]:
        return [got(line) for line in self.ask("heard", consumer, messages, wait_ms)]


def stored(broker: str, topic: str, queue_id: int = 0, offset: int = 0) -> list[Record]:
    """Return the records of a queue. The pulls need no client."""
    host, port = broker.split(":")
    found: list[Record] = []
    while True:
        header = pull_header(topic, offset, queue_id=queue_id, consumer_group="looker")
        answer = send_request((host, int(port)), Command(RequestCode.PULL_MESSAGE, opaque=1, fields=header.to_fields()))
        assert answer is not None, f"{broker} does not answer"
        if answer.code != ResponseCode.SUCCESS:
            return found
        found += iterate_records(answer.body)
        offset = found[-1].queue_offset + 1
