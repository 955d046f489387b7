"""A broker process is killed many times while timers wait and come due: each is delivered, and none early."""

from __future__ import annotations

import time
from pathlib import Path
from random import Random

import pytest

from skyrocket.protocol.command import Command
from skyrocket.protocol.headers import RecallMessageRequestHeader
from skyrocket.protocol.message.properties import UNIQUE_KEY
from skyrocket.protocol.message.record import Record
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from tests.support.apache.cluster import send_request
from tests.support.brokers.running_broker import pull_header, records, send_header
from tests.support.processes.skyrocket_process import Skyrocket
from tests.support.waiting import WAIT_S_MAX

SETTINGS = {"recallMessageEnable": "true", "mappedFileSizeTimerLog": 65_536, "timerFlushIntervalMs": 100}
TOPIC = "orders"


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class Shop:
    def __init__(self, broker: Skyrocket) -> None:
        self._broker = broker
        self.due_ms: dict[str, int] = {}
        self.recalled: set[str] = set()

    def _ask(self, code: int, header: object, body: bytes = b"") -> Command | None:
        host, port = self._broker.address.split(":")
        return send_request((host, int(port)), Command(code, opaque=1, fields=header.to_fields(), body=body))  # type: ignore[attr-defined]

    def send(self, key: str, due_ms: int) -> None:
        """Send a timer. Only acknowledged ones must be delivered."""
        header = send_header(TOPIC, properties={UNIQUE_KEY: key, "TIMER_DELIVER_MS": str(due_ms)})
        answer = self._ask(RequestCode.SEND_MESSAGE_V2, header, key.encode())
        assert answer is not None
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        self.due_ms[key] = due_ms
        if key.endswith("7") and due_ms > now_ms() + 2_000:
            recall = RecallMessageRequestHeader(topic=TOPIC, recall_handle=answer.fields["recallHandle"], producer_group="g")
            answered = self._ask(RequestCode.RECALL_MESSAGE, recall)
            assert answered is not None
            if answered.code == ResponseCode.SUCCESS:
                self.recalled.add(key)

    def delivered(self) -> list[Record]:
        found: list[Record] = []
        while True:
            answer = self._ask(RequestCode.PULL_MESSAGE, pull_header(TOPIC, len(found)))
            page = records(answer) if answer is not None and answer.code == ResponseCode.SUCCESS else []
            if not page:
                return found
            found += page


@pytest.mark.parametrize("seed", [0])
def test_timers_survive_a_killed_broker(tmp_path: Path, seed: int):
    rng = Random(seed)
    with Skyrocket(tmp_path, SETTINGS) as broker:
        shop = Shop(broker)
        for life in range(3):
            for number in range(60):
                shop.send(f"KEY{life}-{number}", now_ms() + rng.randrange(200, 6_000))
            time.sleep(rng.random() * 1.5)
            broker.kill()
            broker.start()
        wanted = set(shop.due_ms) - shop.recalled
        deadline = time.monotonic() + WAIT_S_MAX
        while not {record.body.decode() for record in shop.delivered()} >= wanted:
            assert time.monotonic() < deadline, "not everything was delivered"
            time.sleep(0.2)
        time.sleep(0.5)
        delivered = shop.delivered()
        early = [record.body for record in delivered if record.store_timestamp < shop.due_ms[record.body.decode()]]
        assert early == []
        assert {record.body.decode() for record in delivered} == wanted, "nothing that was taken back"
        broker.stop()
        assert broker.complaints() == [], broker.log_tail()
