"""Apache's mqadmin beside its producers and consumers, in one Java machine that is asked line by line (java/Admin.java)."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from tests.support.apache.archive import program
from tests.support.apache.cluster import Client, JavaProcess

JAVA = Path(__file__).resolve().parents[2] / "interop" / "java" / "Admin.java"


class Message(NamedTuple):
    """A message that was sent or received, and where it lies."""

    number: int
    broker: str
    queue_id: int
    offset: int

    @property
    def place(self) -> tuple[str, int, int]:
        return self.broker, self.queue_id, self.offset


class Admin(Client):
    def __init__(self, home: Path) -> None:
        quick = ["-Drocketmq.client.rebalance.waitInterval=1000"]  # queues are shared out anew every second, not every 20
        arguments = ["-Xmx256m", *quick, *program(JAVA)]
        JavaProcess.__init__(self, "mqadmin", home, arguments, pipes=True)
        self._heard = b""

    def admin(self, *arguments: str) -> str:
        """What the command printed, the traces of its failures included."""
        ((printed,),) = self.ask("admin", *arguments)
        return bytes.fromhex(printed[1:]).decode()

    def produce(self, nameservers: str, group: str) -> None:
        self.ask("produce", nameservers, group)

    def send(self, group: str, topic: str, first: int, count: int, *, deal: bool = False, size_bytes: int = 64) -> list[Message]:
        """Numbered messages, each sent until a broker has it; `deal` gives number after number to queue after queue."""
        return _messages(self.ask("deal" if deal else "send", group, topic, first, count, size_bytes))

    def consume(self, nameservers: str, group: str, topic: str) -> None:
        """From the first message on, when the group has no offset yet."""
        self.ask("consume", nameservers, group, topic, 8)

    def received(self, group: str) -> list[Message]:
        """By all consumers that the group ever had here."""
        return _messages(self.ask("received", group))

    def stop_client(self, group: str) -> None:
        self.ask("stop", group)


def _messages(lines: list[list[str]]) -> list[Message]:
    return [Message(int(number), broker, int(queue_id), int(offset)) for number, broker, queue_id, offset in lines]
