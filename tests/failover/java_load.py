"""Apache's Java client as load and as consumer (interop/java/FailoverLoad.java), in a machine of its own."""

from __future__ import annotations

import threading
import time
from collections import Counter
from pathlib import Path

from tests.failover.consumption import Consumption
from tests.support.apache.archive import program
from tests.support.apache.cluster import JavaProcess
from tests.support.processes.dledger_group import DLedgerGroup
from tests.support.waiting import wait_until

JAVA = Path(__file__).resolve().parents[1] / "interop" / "java" / "FailoverLoad.java"
SENDERS = 2
PAUSE_MS = 5  # of a sender, between two messages
POLL_MS = 500  # how often the client asks for routes; its default is 30 s
# How often it locks queues and divides them; its defaults are 20 s.
QUICK = ["-Drocketmq.client.rebalance.lockInterval=1000", "-Drocketmq.client.rebalance.waitInterval=1000"]


class JavaLoad(JavaProcess):
    def __init__(self, home: Path, nameserver: str, topic: str) -> None:
        words = [nameserver, topic, str(SENDERS), str(PAUSE_MS), str(POLL_MS)]
        super().__init__("Java's load", home, ["-Xmx256m", *QUICK, *program(JAVA), *words], pipes=True)
        self.acknowledged: dict[bytes, tuple[int, int]] = {}  # queue and queue offset
        self.times: list[float] = []
        self.failures: Counter[str] = Counter()
        self.consumed = Consumption("Java's consumer")
        self._has_ended = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> JavaLoad:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.kill()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            match line.split():
                case [b"sent", body, queue, offset]:
                    self.acknowledged[body] = (int(queue), int(offset))
                    self.times.append(time.monotonic())
                case [b"got", body, queue, offset]:
                    self.consumed.add(body, int(queue), int(offset))
                case [b"failed", kind]:
                    self.failures[kind.decode()] += 1
                case [b"ended"]:
                    self._has_ended.set()

    def wait_for_more(self, count: int, group: DLedgerGroup) -> None:
        """Wait until so many more messages are acknowledged."""
        enough = len(self.acknowledged) + count
        wait_until(lambda: len(self.acknowledged) >= enough, lambda: f"{self.failures}\n{self.log_tail()}\n{group.tails()}")

    def stop_sending(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"stop\n")
        self.process.stdin.flush()
        wait_until(self._has_ended.is_set, self.log_tail)

    def kill(self) -> None:
        self.process.kill()
        self._reader.join()
        super().kill()
