"""Timed messages and their recall: Apache's Java client 5.5.0 plays the same scenes against our broker and against Apache's own;
and each broker delivers what the other one left waiting in the directory."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from skyrocket.protocol.command import Command
from skyrocket.protocol.headers import CreateTopicRequestHeader, RecallMessageRequestHeader
from skyrocket.protocol.message.properties import UNIQUE_KEY
from skyrocket.protocol.message.record import Record
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from skyrocket.store.timers.timer_checkpoint import decode_timer_checkpoint
from tests.support.apache.archive import program
from tests.support.apache.cluster import ApacheCluster, Client, JavaProcess, send_request
from tests.support.brokers.running_broker import pull_header, records, send_header
from tests.support.ports import free_port
from tests.support.processes.cpu_pressure import read_cpu_wait_s
from tests.support.processes.skyrocket_process import SMALL_STORE, Skyrocket, SkyrocketBroker, registered
from tests.support.waiting import WAIT_S_MAX, wait_until

pytestmark = pytest.mark.interop

JAVA = Path(__file__).with_name("java") / "TimerScenes.java"
SLOT_MS = 1_000  # Apache delivers at the end of a slot, ours at the time that was asked for
LATE_MS_MAX = 3_000  # plus the time that other work takes; bench/ measures how late it usually is
TAKE_OVER_MS_MIN = 25_000
START_TIMES = 6  # a broker is stopped and the other one started in less than this many times of the slower start
RECALLS = {"recallMessageEnable": "true"}


class Heard(NamedTuple):
    body: str
    born_ms: int
    stored_ms: int
    handed_over_ms: int


class TimerClient(Client):
    def __init__(self, home: Path, nameserver: str, broker: str) -> None:
        arguments = ["-Xmx256m", *program(JAVA), nameserver]
        JavaProcess.__init__(self, "the Java client of timers", home, arguments, pipes=True)
        self._heard = b""
        self.broker = broker

    def topic(self, name: str) -> str:
        create_topic(self.broker, name)
        return name

    def send(self, topic: str, how: str, value: int, body: str) -> list[str]:
        return self.ask("send", topic, how, value, body)[0]

    def heard(self, count: int, wait_s: float) -> list[Heard]:
        return [Heard(body, int(born), int(stored), int(now)) for body, born, stored, now, *_ in self.wait(count, wait_s)]

    def wait(self, count: int, wait_s: float) -> list[list[str]]:
        return self.ask("heard", count, int(wait_s * 1000))


def create_topic(broker: str, topic: str, queues: int = 1) -> None:
    header = CreateTopicRequestHeader(
        topic=topic,
        default_topic="TBW102",
        read_queue_nums=queues,
        write_queue_nums=queues,
        perm=6,
        topic_filter_type="SINGLE_TAG",
        topic_sys_flag=0,
        order=False,
    )
    assert ask(broker, RequestCode.UPDATE_AND_CREATE_TOPIC, header).code == ResponseCode.SUCCESS


def ask(broker: str, code: int, header: object, body: bytes = b"") -> Command:
    host, port = broker.split(":")
    answer = send_request((host, int(port)), Command(code, opaque=1, fields=header.to_fields(), body=body))  # type: ignore[attr-defined]
    assert answer is not None, f"{broker} does not answer {code}"
    return answer


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@pytest.fixture(params=["apache", "skyrocket"])
def client(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[TimerClient]:
    with ExitStack() as stack:
        if request.param == "apache":
            theirs = stack.enter_context(ApacheCluster(tmp_path))
            theirs.broker(tmp_path / "store", {"mappedFileSizeCommitLog": 16_777_216, **RECALLS})
            nameserver, broker = theirs.nameserver, registered(theirs.nameserver)[0]
        else:
            ours = stack.enter_context(Skyrocket(tmp_path / "ours", RECALLS))
            nameserver, broker = ours.nameserver, ours.address
        java = TimerClient(tmp_path / "java", nameserver, broker)
        stack.callback(java.kill)
        yield java


def test_the_java_client_sends_timed_messages_and_takes_them_back(client: TimerClient):
    topic = client.topic("Timed")
    wait_until(lambda: client.ask("listen", "timer-group", topic) == [], "the consumer starts")
    begin_ms, waited_s = now_ms(), read_cpu_wait_s()
    asked_for = {
        "by-seconds": ("sec", 2, begin_ms + 2_000),
        "by-milliseconds": ("ms", 1_300, begin_ms + 1_300),
        "by-time": ("at", begin_ms + 2_700, begin_ms + 2_700),
        "on-a-border": ("at", begin_ms // 1000 * 1000 + 4_000, begin_ms // 1000 * 1000 + 4_000),
        "in-the-past": ("at", begin_ms - 60_000, begin_ms),
    }
    handles = {}
    for body, (how, value, _) in asked_for.items():
        outcome, handle, _ = client.send(topic, how, value, body)
        assert outcome == "OK"
        handles[body] = handle
    assert [body for body, handle in handles.items() if handle == "-"] == ["in-the-past"]

    assert client.send(topic, "sec", 3 * 24 * 3600 + 60, "too-far") == ["FAILED", str(int(ResponseCode.MESSAGE_ILLEGAL))]
    sent_ms = now_ms()
    outcome, handle, message_id = client.send(topic, "sec", 10, "taken-back")
    assert client.ask("recall", topic, handle) == [["OK", message_id]]
    client.send(topic, "sec", 12, "after-it")

    heard = {message.body: message for message in client.heard(len(asked_for) + 1, 120)}
    assert sorted(heard) == sorted([*asked_for, "after-it"]), "each once, and not what was taken back"
    late_ms_max = SLOT_MS + LATE_MS_MAX + (sent_ms - begin_ms) + 1_000 * (read_cpu_wait_s() - waited_s)
    for body, (_, _, due_ms) in asked_for.items():
        late_ms = heard[body].stored_ms - due_ms
        assert 0 <= late_ms <= late_ms_max, f"{body} is delivered {late_ms} ms after it was due"
    refused = client.ask("recall", topic, handle)
    assert refused == [["FAILED", str(int(ResponseCode.ILLEGAL_OPERATION))]], "its time has come"


# --- one directory, two brokers by turns


class House:
    """A store directory, and whichever broker lives in it."""

    def __init__(self, home: Path, cluster: ApacheCluster, java_start_ms: int) -> None:
        """`java_start_ms`: how long Apache's nameserver took to start, on this machine and now."""
        self.home = home
        self.store = home / "store"
        self.cluster = cluster
        self.java_start_ms = java_start_ms
        self.port = free_port(-2, 1)
        self.address = f"127.0.0.1:{self.port}"
        self.broker: JavaProcess | SkyrocketBroker | None = None
        self.tenants = 0
        self.settings = {
            **SMALL_STORE,
            **RECALLS,
            "brokerClusterName": "Test",
            "brokerName": "house",
            "listenPort": self.port,
            "mappedFileSizeTimerLog": 1_048_576,
            "timerFlushIntervalMs": 1_000,
        }

    def enter(self, who: str) -> None:
        self.tenants += 1
        if who == "apache":
            self.broker = self.cluster.broker(self.store, self.settings)
        else:
            home = self.home / f"ours{self.tenants}"
            self.broker = SkyrocketBroker(home, self.cluster.nameserver, self.settings, self.store)

    def wait_for_progress(self, messages: int) -> None:
        """Wait until the checkpoint says that all that is due is delivered, and that so many messages are in the timer log."""
        path, begin_ms = self.store / "config" / "timercheck", now_ms()

        def has_come_so_far() -> bool:
            checkpoint = decode_timer_checkpoint(path.read_bytes())
            return checkpoint.read_ms >= begin_ms and checkpoint.queue_offset >= messages

        wait_until(has_come_so_far, "the broker saves its progress")

    def leave(self, how: str) -> None:
        assert self.broker is not None
        (self.broker.stop if how == "stopped" else self.broker.kill)()

    def send(self, body: str, due_ms: int) -> str:
        """The recall handle."""
        header = send_header("Timed", properties={UNIQUE_KEY: f"key{body}", "TIMER_DELIVER_MS": str(due_ms)})
        answer = ask(self.address, RequestCode.SEND_MESSAGE_V2, header, body.encode())
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        return answer.fields["recallHandle"]

    def recall(self, handle: str) -> None:
        header = RecallMessageRequestHeader(topic="Timed", recall_handle=handle, producer_group="group")
        answer = ask(self.address, RequestCode.RECALL_MESSAGE, header)
        assert answer.code == ResponseCode.SUCCESS, answer.remark

    def delivered(self) -> list[Record]:
        return records(ask(self.address, RequestCode.PULL_MESSAGE, pull_header("Timed", 0, max_msg_nums=100)))


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    begin_ms = now_ms()
    with ApacheCluster(tmp_path / "apache") as cluster:
        made = House(tmp_path, cluster, now_ms() - begin_ms)
        try:
            yield made
        finally:
            if isinstance(made.broker, SkyrocketBroker):
                made.broker.__exit__(None, None, None)


@pytest.mark.parametrize("how", ["stopped", "killed"])
@pytest.mark.parametrize(("first", "second"), [("apache", "skyrocket"), ("skyrocket", "apache")])
def test_what_waits_is_delivered_by_the_broker_that_takes_over(house: House, first: str, second: str, how: str):
    begin_ms = now_ms()
    house.enter(first)
    take_over_ms = TAKE_OVER_MS_MIN + START_TIMES * max(now_ms() - begin_ms, house.java_start_ms)
    create_topic(house.address, "Timed")
    start_ms = now_ms()
    due_ms = {f"soon{i}": start_ms + 500 + 100 * i for i in range(3)}
    for body, due in due_ms.items():
        house.send(body, due)
    wait_until(lambda: len(house.delivered()) >= 3, "what was due soon is delivered")
    due_ms |= {f"later{i}": now_ms() + take_over_ms + 333 * i for i in range(12)}
    handles = {body: house.send(body, due) for body, due in due_ms.items() if body.startswith("later")}
    house.recall(handles["later3"])
    house.wait_for_progress(len(due_ms) + 1)
    house.leave(how)

    house.enter(second)
    house.recall(handles["later7"])
    due_ms |= {f"new{i}": now_ms() + 3_000 + 333 * i for i in range(3)}
    for body in ("new0", "new1", "new2"):
        house.send(body, due_ms[body])
    wanted = sorted(set(due_ms) - {"later3", "later7"})
    limit_s = WAIT_S_MAX + take_over_ms / 1000
    wait_until(lambda: {record.body.decode() for record in house.delivered()} >= set(wanted), "everything is delivered", limit_s)
    time.sleep(1.5)
    delivered = house.delivered()
    assert sorted(record.body.decode() for record in delivered) == wanted, "each once, and nothing that was taken back"
    for record in delivered:
        assert record.store_timestamp >= due_ms[record.body.decode()], f"{record.body!r} comes too early"
    house.leave("stopped")
    if isinstance(house.broker, SkyrocketBroker):
        assert house.broker.complaints() == []
