"""SIGTERM and Ctrl-C end `run` in order: real processes, real signals."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from skyrocket.client import Consumer
from skyrocket.client.errors import BrokerError
from skyrocket.protocol.bodies import GetConsumerListByGroupResponseBody
from skyrocket.protocol.fastjson.codec import decode
from skyrocket.protocol.headers import GetConsumerListByGroupRequestHeader
from skyrocket.protocol.requests import RequestCode
from tests.client.consumer_support import QUICK, broker_address, make_topic, numbered, numbers, send, take
from tests.client.servers import Servers, reader
from tests.support.waiting import WAIT_S_MAX, wait_until

MESSAGES = 60
ASYNC = """
import asyncio, sys
from skyrocket.client import Consumer, ConsumerLimits

async def main():
    consumer = Consumer(sys.argv[1], group=sys.argv[2], start="first", concurrency=1, close_timeout_ms=int(sys.argv[4]),
                        consumer_limits=ConsumerLimits(commit_ms=60_000))

    @consumer.on(sys.argv[2])
    async def handle(message):
        print("begin", message.body.decode(), flush=True)
        await asyncio.sleep(float(sys.argv[3]))
        print("end", message.body.decode(), flush=True)

    await consumer.run()
    print("returned", flush=True)

asyncio.run(main())
"""
SYNC = """
import sys, time
from skyrocket.client import ConsumerLimits
from skyrocket.client.sync import Consumer

consumer = Consumer(sys.argv[1], group=sys.argv[2], start="first", concurrency=1, close_timeout_ms=int(sys.argv[4]),
                    consumer_limits=ConsumerLimits(commit_ms=60_000))

@consumer.on(sys.argv[2])
def handle(message):
    print("begin", message.body.decode(), flush=True)
    time.sleep(float(sys.argv[3]))
    print("end", message.body.decode(), flush=True)

consumer.run()
print("returned", flush=True)
"""
SCRIPTS = [pytest.param(ASYNC, id="async"), pytest.param(SYNC, id="sync")]
SIGNALS = [signal.SIGTERM, signal.SIGINT]


class Program:
    """A consumer in a process of its own, and what it has printed."""

    def __init__(self, script: str, home: Path, *arguments: object) -> None:
        self._printed = home / "printed.txt"
        self._complaints = home / "complaints.txt"
        with self._printed.open("wb") as out, self._complaints.open("wb") as err:
            self.process = subprocess.Popen([sys.executable, "-c", script, *map(str, arguments)], stdout=out, stderr=err)

    def lines(self, word: str = "") -> list[str]:
        return [line for line in self._printed.read_text().splitlines() if line.startswith(word)]

    def bodies(self, word: str) -> set[int]:
        return {int(line.split()[1]) for line in self.lines(word)}

    def complaints(self) -> str:
        return self._complaints.read_text()


@contextmanager
def program(script: str, home: Path, *arguments: object) -> Iterator[Program]:
    running = Program(script, home, *arguments)
    try:
        yield running
    finally:
        running.process.kill()
        running.process.wait()


def make_filled_topic(servers: Servers, what: str) -> str:
    topic = servers.topic(what)

    async def fill() -> None:
        await make_topic(servers, topic, 2)
        await send(servers, topic, numbered(MESSAGES))

    asyncio.run(fill())
    return topic


async def members(servers: Servers, group: str) -> list[str]:
    async with reader(servers) as read:
        header = GetConsumerListByGroupRequestHeader(consumer_group=group)
        try:
            answer = await read.session.request_ok(await broker_address(read), RequestCode.GET_CONSUMER_LIST_BY_GROUP, header)
        except BrokerError:
            return []  # Apache's answer for a group without members
        return decode(answer.body, GetConsumerListByGroupResponseBody).consumer_id_list or []


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("script", SCRIPTS)
def test_signal_ends_run_in_order(servers: Servers, tmp_path: Path, script: str, number: signal.Signals):
    """Running handlers finish, offsets are committed, the group has no member, and the program goes on after `run`."""
    topic = make_filled_topic(servers, "signal")
    with program(script, tmp_path, servers.nameserver, topic, 0.3, 30_000) as running:
        wait_until(lambda: len(running.lines("end")) >= 4, running.complaints)
        running.process.send_signal(number)
        assert running.process.wait(WAIT_S_MAX) == 0
        assert running.lines()[-1] == "returned"
        assert "Traceback" not in running.complaints()
        assert running.bodies("begin") == running.bodies("end")
        done, complaints = running.bodies("end"), running.complaints()
    assert len(done) < MESSAGES, "the signal came before all messages were consumed"

    async def consume_rest() -> None:
        assert await members(servers, topic) == []
        async with Consumer(servers.nameserver, group=topic, topics=topic, start="first", consumer_limits=QUICK) as consumer:
            rest = set(numbers(await take(consumer, MESSAGES - len(done))))
        assert rest == set(range(MESSAGES)) - done, complaints

    asyncio.run(consume_rest())


@pytest.mark.parametrize("number", SIGNALS)
def test_handler_that_does_not_end_is_given_up_after_the_limit(ours: Servers, tmp_path: Path, number: signal.Signals):
    topic = make_filled_topic(ours, "hanging")
    with program(ASYNC, tmp_path, ours.nameserver, topic, 1_000, 200) as running:
        wait_until(lambda: len(running.lines("begin")) >= 1, running.complaints)
        running.process.send_signal(number)
        assert running.process.wait(WAIT_S_MAX) == 0
        assert running.lines()[-1] == "returned"
        assert "did not end within 200 ms" in running.complaints()


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, -signal.SIGTERM), (signal.SIGINT, -signal.SIGINT)])
@pytest.mark.parametrize("script", SCRIPTS)
def test_second_signal_ends_the_program_at_once(ours: Servers, tmp_path: Path, script: str, number: signal.Signals, status: int):
    topic = make_filled_topic(ours, "twice")
    with program(script, tmp_path, ours.nameserver, topic, 5 if script is SYNC else 1_000, 1_000_000) as running:
        wait_until(lambda: len(running.lines("begin")) >= 1, running.complaints)

        def signal_again() -> bool:
            running.process.send_signal(number)
            return running.process.poll() is not None

        wait_until(signal_again, "the program ends", every_s=0.7)
        assert running.process.returncode == status
        assert "returned" not in running.lines()


OWN_HANDLER = ASYNC.replace(
    "asyncio.run(main())",
    """
import os, signal

def end(number, frame):
    print("own", flush=True)
    os._exit(7)

signal.signal(signal.SIGTERM, end)
asyncio.run(main())
""",
)


def test_handler_of_the_program_stays_in_place(ours: Servers, tmp_path: Path):
    topic = make_filled_topic(ours, "own-handler")
    with program(OWN_HANDLER, tmp_path, ours.nameserver, topic, 1_000, 30_000) as running:
        wait_until(lambda: len(running.lines("begin")) >= 1, running.complaints)
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(WAIT_S_MAX) == 7
        assert running.lines()[-1] == "own"


async def test_one_signal_stops_all_consumers_of_the_process_and_handlers_come_back(ours: Servers):
    before = [signal.getsignal(number) for number in SIGNALS]
    topics = [ours.topic("both"), ours.topic("both")]
    consumers = []
    for topic in topics:
        await make_topic(ours, topic, 1)
        consumer = Consumer(ours.nameserver, group=topic, consumer_limits=QUICK)
        consumer.on(topic)(lambda _: None)
        consumers.append(consumer)
    runs = [asyncio.create_task(consumer.run()) for consumer in consumers]
    async with asyncio.timeout(WAIT_S_MAX):
        while not all(consumer._engine is not None and consumer.queues for consumer in consumers):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.gather(*runs)
    assert [signal.getsignal(number) for number in SIGNALS] == before


async def test_signals_are_left_alone_on_request(ours: Servers):
    before = [signal.getsignal(number) for number in SIGNALS]
    topic = ours.topic("unhandled")
    await make_topic(ours, topic, 1)
    consumer = Consumer(ours.nameserver, group=topic, consumer_limits=QUICK)
    consumer.on(topic)(lambda _: None)
    running = asyncio.create_task(consumer.run(handle_signals=False))
    await asyncio.sleep(0)
    assert [signal.getsignal(number) for number in SIGNALS] == before
    consumer.stop()
    await running
