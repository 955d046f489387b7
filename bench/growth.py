"""Growth: what a message costs our broker with more queues, more connections, a larger store and consumers far behind.

    python -m bench growth                               a sample: up to 10,000 queues, 2,000 connections and 1 GB of messages
    SKYROCKET_GROWTH_GB=20 python -m bench growth        the same with a store of 20 GB

A row starts with the smallest size; the rows below it are the same load at larger sizes, as CPU time of the broker process per
message and as a ratio to the first. The load is the same at every size: bursts of as many requests, each after the answers to the
one before. So the broker finds the same number of requests in a turn, and the speed of this program, in Python, changes nothing.
"""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from itertools import cycle, islice
from pathlib import Path
from typing import NamedTuple

from tests.support.apache.cluster import send_request
from tests.support.processes.skyrocket_process import FULL_DISK, Skyrocket

from bench import Figure
from skyrocket.protocol.command import Command, encode_command
from skyrocket.protocol.headers import CreateTopicRequestHeader, PullMessageRequestHeader, SendMessageRequestHeaderV2
from skyrocket.protocol.message.batch import encode_batch
from skyrocket.protocol.message.properties import encode_properties
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from skyrocket.protocol.sysflag import PULL_SUBSCRIPTION

TOPIC, QUEUE_COUNT = "growth", 4
QUEUES = (1, 100, 1_000, 10_000)
CONNECTIONS = (1, 100, 500, 2_000)
STORE_GB = float(os.environ.get("SKYROCKET_GROWTH_GB", "1"))
BURST = 256  # requests in flight
BURSTS = 40  # in one round
IN_USE = 64  # connections that bring one request each, in one burst
SPAN = 1024  # the last messages of a queue, which pulls repeat
RECORD_BYTES = 1024 + 130  # of a message in the log, about
ROUNDS = 5
PULLS = 640  # in one round, of PULLED messages each
PULLED = 32
BODY_BYTES = 1024
TOPIC_QUEUES_MAX = 1_000  # in one topic; more queues are several topics
LIMIT = 1.2  # a ratio above it is marked


# --- the broker's CPU time and memory


def cpu_us(pid: int) -> float:
    """The CPU time that all threads of a process have used, to the nanosecond; a thread that has ended counts no more."""
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in Path(f"/proc/{pid}/task").iterdir()) / 1000


def resident_mb(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


class Measured(NamedTuple):
    size: str
    us: float
    resident_mb: float


def rows(what: str, measured: list[Measured]) -> Iterator[Figure]:
    first = measured[0].us
    for one in measured:
        ratio = one.us / first
        mark = f", above {LIMIT}" if ratio > LIMIT else ""
        yield Figure(
            f"{what}, {one.size}", f"{one.us:.2f} µs", f"{ratio:.2f} of the first{mark}; {one.resident_mb:.0f} MB resident"
        )


# --- the load


class Burst:
    """Sends frames over connections, and waits for the answers to all of them."""

    def __init__(self, address: str, connections: int) -> None:
        host, _, port = address.rpartition(":")
        self._sockets = [socket.create_connection((host, int(port))) for _ in range(connections)]
        self._next = 0

    def close(self) -> None:
        for each in self._sockets:
            each.close()

    def __call__(self, frames: list[bytes]) -> None:
        """Send each frame once, over the next connections in turn; a connection may get several."""
        used = min(len(self._sockets), len(frames))
        sockets = [self._sockets[(self._next + number) % len(self._sockets)] for number in range(used)]
        self._next += used
        for number, each in enumerate(sockets):
            each.sendall(b"".join(frames[number::used]))
        for number, each in enumerate(sockets):
            _read_answers(each, len(frames[number::used]))


def _read_answers(over: socket.socket, count: int) -> None:
    data = bytearray()
    while count:
        received = over.recv(1 << 18)
        assert received, "the broker closed a connection"
        data += received
        at = 0
        while len(data) - at >= 4 and len(data) - at >= (size := 4 + int.from_bytes(data[at : at + 4], "big")):
            header = data[at + 8 : at + 8 + (int.from_bytes(data[at + 4 : at + 8], "big") & 0xFFFFFF)]
            assert b'"code":0,' in header, bytes(header)
            at, count = at + size, count - 1
        del data[:at]


def send_header(
    topic: str, queue_id: int, properties: dict[str, str] | None = None, *, batch: bool = False
) -> SendMessageRequestHeaderV2:
    return SendMessageRequestHeaderV2(
        producer_group="producers",
        topic=topic,
        default_topic="TBW102",
        default_topic_queue_nums=QUEUE_COUNT,
        queue_id=queue_id,
        sys_flag=0,
        born_timestamp=1_000,
        flag=0,
        properties=encode_properties(properties or {}).decode(),
        batch=batch,
    )


def pull_header(queue_id: int, offset: int) -> PullMessageRequestHeader:
    return PullMessageRequestHeader(
        consumer_group="consumers",
        topic=TOPIC,
        queue_id=queue_id,
        queue_offset=offset,
        max_msg_nums=PULLED,
        sys_flag=PULL_SUBSCRIPTION,
        commit_offset=0,
        suspend_timeout_millis=0,
        subscription="*",
        sub_version=1,
        expression_type="TAG",
    )


def ask(address: str, request: Command) -> Command:
    host, _, port = address.rpartition(":")
    answer = send_request((host, int(port)), request)
    assert answer is not None, "the broker does not answer"
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    return answer


def send_frames(topics: list[str], queues: int) -> list[bytes]:
    """One send for each queue of each topic."""
    body = bytes(BODY_BYTES)
    properties = {"UNIQ_KEY": "7F000001A1B218B4AAC200000000FF00", "TAGS": "TagA", "WAIT": "true"}
    headers = [send_header(topic, queue_id, properties) for topic in topics for queue_id in range(queues)]
    return [encode_command(Command(RequestCode.SEND_MESSAGE_V2, fields=header.to_fields(), body=body)) for header in headers]


@contextmanager
def broker(home: Path) -> Iterator[tuple[Skyrocket, int]]:
    defaults = {"mappedFileSizeCommitLog": 1 << 30, "maxHashSlotNum": 5_000_000, "maxIndexNum": 20_000_000, **FULL_DISK}
    with Skyrocket(home, defaults) as started:
        assert started.process is not None
        yield started, started.process.pid


def create_topic(address: str, topic: str, queues: int) -> None:
    header = CreateTopicRequestHeader(
        topic=topic, default_topic="TBW102", read_queue_nums=queues, write_queue_nums=queues, perm=6,
        topic_filter_type="SINGLE_TAG", order=False,
    )  # fmt: skip
    ask(address, Command(RequestCode.UPDATE_AND_CREATE_TOPIC, fields=header.to_fields()))


class Case(NamedTuple):
    """A broker of one size, and a load for it."""

    size: str
    pid: int
    messages: int  # in one round
    run: Callable[[], None]


def measure_in_turns(what: str, cases: list[Case]) -> Iterator[Figure]:
    """Measure all sizes in turns, because the speed of a shared machine varies. The best round of each counts."""
    best: dict[str, float] = {}
    for case in cases:
        case.run()
    for _ in range(ROUNDS):
        for case in cases:
            before_us = cpu_us(case.pid)
            case.run()
            us = (cpu_us(case.pid) - before_us) / case.messages
            best[case.size] = min(us, best.get(case.size, us))
    return rows(what, [Measured(case.size, best[case.size], resident_mb(case.pid)) for case in cases])


def _repeat(burst: Burst, turns: Iterator[bytes], size: int = BURST) -> None:
    for _ in range(BURST * BURSTS // size):
        burst(list(islice(turns, size)))


def _sends(size: str, pid: int, burst: Burst, turns: Iterator[bytes], in_burst: int = BURST) -> Case:
    return Case(size, pid, BURST * BURSTS // in_burst * in_burst, lambda: _repeat(burst, turns, in_burst))


# --- the rows


def queue_figures(home: Path, sizes: tuple[int, ...] = QUEUES) -> Iterator[Figure]:
    """Sends to more and more queues, all of which have messages."""
    with ExitStack() as stack:
        cases = []
        for size in sizes:
            started, pid = stack.enter_context(broker(home / str(size)))
            burst = stack.enter_context(closing(Burst(started.address, 4)))
            turns = cycle(_queue_frames(started.address, size))
            for _ in range(-(-size // BURST)):  # every queue has its file
                burst(list(islice(turns, BURST)))
            cases.append(_sends(f"{size:,} queues", pid, burst, turns))
        yield from measure_in_turns("send", cases)


def _queue_frames(address: str, size: int) -> list[bytes]:
    queues = min(size, TOPIC_QUEUES_MAX)
    topics = [f"growth-{number}" for number in range(size // queues)]
    for topic in topics:
        create_topic(address, topic, queues)
    return send_frames(topics, queues)


def connection_figures(home: Path, sizes: tuple[int, ...] = CONNECTIONS) -> Iterator[Figure]:
    """Sends over one of so many connections, and over 64 of them at a time, which take turns."""
    with ExitStack() as stack:
        idle, in_use = [], []
        for size in sizes:
            started, pid = stack.enter_context(broker(home / str(size)))
            create_topic(started.address, TOPIC, QUEUE_COUNT)
            turns = cycle(send_frames([TOPIC], QUEUE_COUNT))
            one = stack.enter_context(closing(Burst(started.address, 1)))
            others = stack.enter_context(closing(Burst(started.address, size - 1)))
            idle.append(_sends(f"{size:,} connections", pid, one, turns))
            if size > IN_USE:
                in_use.append(_sends(f"{size:,} connections", pid, others, turns, IN_USE))
        yield from measure_in_turns("send over one, the others idle", idle)
        yield from measure_in_turns(f"send over {IN_USE} at a time", in_use)


def store_figures(home: Path, store_gb: float = STORE_GB) -> Iterator[Figure]:
    """Sends, and pulls at the end and far behind it, with an empty store and with larger ones."""
    with ExitStack() as stack:
        sends, at_end, behind = [], [], []
        for gb in (0.0, store_gb / 4, store_gb):
            started, pid = stack.enter_context(broker(home / f"{gb:g}"))
            create_topic(started.address, TOPIC, QUEUE_COUNT)
            turns = cycle(send_frames([TOPIC], QUEUE_COUNT))
            burst = stack.enter_context(closing(Burst(started.address, QUEUE_COUNT)))
            _repeat(burst, turns)
            _fill(burst, gb)
            size = f"{gb:g} GB" if gb else "an empty store"
            end = _end_of_queue(started.address)
            sends.append(_sends(size, pid, burst, turns))
            at_end.append(_pulls(f"the last messages, {size}", pid, burst, end - SPAN, end))
            if gb:
                behind.append(_pulls(f"from the first message on, {size}", pid, burst, 0, end - SPAN))
        yield from measure_in_turns("pull", [*at_end, *behind])
        yield from measure_in_turns("send", sends)


def _fill(burst: Burst, gb: float) -> None:
    """Make the log larger by so much, with large batches."""
    body = encode_batch([(bytes(BODY_BYTES), b"TAGS\x01TagA\x02", 0)] * 256)
    headers = [send_header(TOPIC, queue_id, batch=True) for queue_id in range(4)]
    frames = [encode_command(Command(RequestCode.SEND_BATCH_MESSAGE, fields=one.to_fields(), body=body)) for one in headers]
    for _ in range(int(gb * 1e9 / RECORD_BYTES / 256 / 16)):
        burst(frames * 4)


def _end_of_queue(address: str) -> int:
    found = ask(address, Command(RequestCode.GET_MAX_OFFSET, fields={"topic": TOPIC, "queueId": "0"}))
    return int(found.fields["offset"])


def _pulls(size: str, pid: int, burst: Burst, first: int, end: int) -> Case:
    """Pulls of all queues, each from `first` to `end` and then again, two in flight for each queue."""

    def frames() -> Iterator[bytes]:
        for at in cycle(range(first, end - PULLED + 1, PULLED)):
            for queue_id in range(QUEUE_COUNT):
                yield encode_command(Command(RequestCode.PULL_MESSAGE, fields=pull_header(queue_id, at).to_fields()))

    turns = frames()

    def run() -> None:
        for _ in range(PULLS // 8):
            burst(list(islice(turns, 8)))

    return Case(size, pid, PULLS * PULLED, run)


def figures() -> Iterator[Figure]:
    for measure in (queue_figures, connection_figures, store_figures):
        with tempfile.TemporaryDirectory(prefix="growth-") as home:
            yield from measure(Path(home))
