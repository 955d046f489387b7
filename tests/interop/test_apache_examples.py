"""Apache's own examples (`org.apache.rocketmq.example`), unmodified, against a running `skyrocket run`.

Some of them have the nameserver's address written in, 127.0.0.1:9876, so that is where it has to be here too.
"""

from __future__ import annotations

import re
import socket
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from skyrocket.protocol.command import Command
from skyrocket.protocol.headers import CreateTopicRequestHeader, GetMaxOffsetRequestHeader, GetMaxOffsetResponseHeader
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from tests.support.apache.archive import program
from tests.support.apache.cluster import JavaProcess, send_request
from tests.support.processes.skyrocket_process import Skyrocket
from tests.support.waiting import WAIT_S_MAX, wait_until

pytestmark = pytest.mark.interop

RUNNER = Path(__file__).parent / "java" / "ExampleRunner.java"
NAMES_PORT = 9876
QUEUES = 4
SETTINGS = {"enablePropertyFilter": "true", "transactionTimeOut": 500, "transactionCheckInterval": 1_000}
TOPICS = [
    "TopicTest",
    "TopicTest1",
    "TopicTestjjj",
    "TopicTest1234",
    "TestTopic",
    "TimerTopic",
    "BatchTest",
    "TagFilterTest",
    "SqlFilterTest",
    "RequestTopic",
    "Jodie_topic_1023",
]
SENT = r"sendStatus=SEND_OK"
RECEIVED = r"MessageExt \["


class Told(NamedTuple):
    """A program, and how often at least it prints something."""

    program: str
    pattern: str
    times: int


class Examples(JavaProcess):
    """Runs examples in one virtual machine, and hears what each prints."""

    def __init__(self, home: Path) -> None:
        address = f"-Drocketmq.namesrv.addr=127.0.0.1:{NAMES_PORT}"
        arguments = ["-Xmx384m", address, *program(RUNNER)]
        super().__init__("the examples", home, arguments, pipes=True)
        self._lines: dict[str, list[str]] = defaultdict(list)
        threading.Thread(target=self._hear, daemon=True).start()

    def _hear(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            program, _, text = line.decode(errors="replace").rstrip("\n").partition("\t")
            self._lines[program].append(text)

    def run(self, program: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(program.encode() + b"\n")
        self.process.stdin.flush()

    def tells(self, told: Told) -> None:
        """Waits until it has."""
        deadline = time.monotonic() + WAIT_S_MAX
        while (times := self.times(told)) < told.times:
            lines = self._lines[told.program]
            failed = [line for line in lines if line.startswith("failed")]
            assert not failed, f"{told.program}: {failed[0]}\n{self.log_tail()}"
            assert self.process.poll() is None, f"the examples' virtual machine ended:\n{self.log_tail()}"
            assert time.monotonic() < deadline, f"{told}: {times} times in {WAIT_S_MAX} s; last {lines[-3:]}\n{self.log_tail()}"
            time.sleep(0.1)

    def times(self, told: Told) -> int:
        return sum(len(re.findall(told.pattern, line)) for line in list(self._lines[told.program]))


@pytest.fixture(scope="module")
def skyrocket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Skyrocket]:
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            taken.bind(("127.0.0.1", NAMES_PORT))
        except OSError:
            pytest.fail(f"Somebody listens on port {NAMES_PORT}, where Apache's examples look for a nameserver: stop that first.")
    with Skyrocket(tmp_path_factory.mktemp("skyrocket"), SETTINGS, NAMES_PORT) as running:
        for topic in TOPICS:
            _create(running, topic)
        yield running
        running.stop()
        assert running.complaints() == [], running.log_tail(200)


@pytest.fixture
def examples(skyrocket: Skyrocket, tmp_path: Path) -> Iterator[Examples]:
    assert skyrocket.process is not None
    running = Examples(tmp_path / "examples")
    try:
        yield running
    finally:
        running.kill()


def _ask(skyrocket: Skyrocket, command: Command) -> Command:
    host, port = skyrocket.address.split(":")
    answer = send_request((host, int(port)), command)
    assert answer is not None, "the broker does not answer"
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    return answer


def _create(skyrocket: Skyrocket, topic: str) -> None:
    header = CreateTopicRequestHeader(
        topic=topic,
        default_topic="TBW102",
        read_queue_nums=QUEUES,
        write_queue_nums=QUEUES,
        perm=6,
        topic_filter_type="SINGLE_TAG",
        topic_sys_flag=0,
        order=False,
    )
    _ask(skyrocket, Command(RequestCode.UPDATE_AND_CREATE_TOPIC, opaque=1, fields=header.to_fields()))


def _stored(skyrocket: Skyrocket, topic: str) -> int:
    """How many messages a topic's queues have."""
    total = 0
    for queue_id in range(QUEUES):
        header = GetMaxOffsetRequestHeader(topic=topic, queue_id=queue_id)
        answer = _ask(skyrocket, Command(RequestCode.GET_MAX_OFFSET, opaque=1, fields=header.to_fields()))
        total += answer.header(GetMaxOffsetResponseHeader).offset
    return total


SCENES = {
    "quickstart": [Told("quickstart.Producer", SENT, 1000), Told("quickstart.Consumer", RECEIVED, 1000)],
    "ordered": [Told("ordermessage.Producer", SENT, 100), Told("ordermessage.Consumer", RECEIVED, 60)],
    "delay levels": [
        Told("schedule.ScheduledMessageConsumer", "ended", 1),
        Told("schedule.ScheduledMessageProducer", SENT, 100),
        Told("schedule.ScheduledMessageConsumer", "Receive message", 100),
    ],
    "timers": [
        Told("schedule.TimerMessageConsumer", "ended", 1),
        Told("schedule.TimerMessageProducer", SENT, 10),
        Told("schedule.TimerMessageConsumer", "Receive message", 10),
    ],
    "tags": [Told("filter.TagFilterProducer", SENT, 60), Told("filter.TagFilterConsumer", RECEIVED, 40)],
    "SQL": [Told("filter.SqlFilterProducer", SENT, 10), Told("filter.SqlFilterConsumer", RECEIVED, 3)],
    "broadcast": [
        Told("broadcast.PushConsumer", "Started", 1),
        Told("simple.Producer", SENT, 128),
        Told("broadcast.PushConsumer", RECEIVED, 128),
    ],
    "simple": [
        Told("simple.Producer", SENT, 128),
        Told("simple.AsyncProducer", " OK ", 100),
        Told("simple.OnewayProducer", "ended", 1),
        Told("simple.PushConsumer", RECEIVED, 128),
        Told("simple.LitePullConsumerSubscribe", RECEIVED, 128),
        Told("simple.LitePullConsumerAssign", RECEIVED, 1),
        Told("simple.PullScheduleService", "pullStatus=FOUND", 1),
        Told("simple.PullConsumer", "ended", 1),
    ],
    "trace": [Told("tracemessage.TraceProducer", SENT, 128), Told("tracemessage.TracePushConsumer", RECEIVED, 128)],
    "OpenTracing": [
        Told("tracemessage.OpenTracingPushConsumer", "Started", 1),
        Told("tracemessage.OpenTracingProducer", SENT, 1),
        Told("tracemessage.OpenTracingTransactionProducer", SENT, 1),
        Told("tracemessage.OpenTracingPushConsumer", RECEIVED, 2),
    ],
}


@pytest.mark.parametrize("scene", SCENES)
def test_the_examples_print_what_they_print_with_apaches_broker(scene: str, examples: Examples) -> None:
    started = set()
    for told in SCENES[scene]:
        if told.program not in started:
            examples.run(told.program)
            started.add(told.program)
        examples.tells(told)


REQUEST_TRIES_MAX = 5  # the examples wait three seconds for a reply, which a busy machine may not have in time


@pytest.mark.parametrize("program", ["rpc.RequestProducer", "rpc.AsyncRequestProducer"])
def test_a_request_gets_its_reply(examples: Examples, program: str) -> None:
    examples.run("rpc.ResponseConsumer")
    examples.tells(Told("rpc.ResponseConsumer", "Started", 1))
    for tries in range(1, REQUEST_TRIES_MAX + 1):
        examples.run(program)
        examples.tells(Told(program, "replyMessage: Message|Exception|ended", 2 * tries - 1))
        if examples.times(Told(program, "replyMessage: Message", 1)) or tries == REQUEST_TRIES_MAX:
            break
    examples.tells(Told(program, "replyMessage: Message", 1))
    examples.tells(Told("rpc.ResponseConsumer", "reply to", 1))


def test_batches_arrive_whole(examples: Examples, skyrocket: Skyrocket) -> None:
    examples.run("batch.SimpleBatchProducer")
    examples.tells(Told("batch.SimpleBatchProducer", SENT, 1))
    examples.run("batch.SplitBatchProducer")
    wait_until(
        lambda: _stored(skyrocket, "BatchTest") == 100_003, lambda: f"{_stored(skyrocket, 'BatchTest')} of 100,003 are stored"
    )


def test_of_ten_transactions_those_that_the_check_commits_are_there(examples: Examples, skyrocket: Skyrocket) -> None:
    examples.run("transaction.TransactionProducer")
    examples.tells(Told("transaction.TransactionProducer", SENT, 10))
    wait_until(
        lambda: _stored(skyrocket, "TopicTest1234") == 3, lambda: f"{_stored(skyrocket, 'TopicTest1234')} are committed, not 3"
    )
    time.sleep(3)  # two more checks of those whose state stays unknown
    assert _stored(skyrocket, "TopicTest1234") == 3


def test_traces_are_stored(examples: Examples, skyrocket: Skyrocket) -> None:
    examples.run("tracemessage.TraceProducer")
    examples.tells(Told("tracemessage.TraceProducer", SENT, 128))
    header = GetMaxOffsetRequestHeader(topic="RMQ_SYS_TRACE_TOPIC", queue_id=0)
    command = Command(RequestCode.GET_MAX_OFFSET, opaque=1, fields=header.to_fields())
    wait_until(lambda: _ask(skyrocket, command).header(GetMaxOffsetResponseHeader).offset > 0, lambda: "no trace is stored")
