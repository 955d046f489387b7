"""Sending one queue: order, batches, requests without an answer, and runs that were killed. The target is a list."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from skyrocket.client.errors import ClientError, SendTimedOutError
from skyrocket.client.message import Message
from skyrocket.client.queues import Queue
from skyrocket.client.receipt import Receipt, SendStatus
from skyrocket.pipelines.errors import ReplayError
from skyrocket.pipelines.replay.origin import ReplayedFrom, parse_place, replayed_properties
from skyrocket.pipelines.replay.pace import Pace
from skyrocket.pipelines.replay.progress_file import ProgressFile, open_replay, read_sent
from skyrocket.pipelines.replay.queue_replay import BATCH_BYTES, BATCH_MESSAGES, OffsetMessage, QueueReplay

SOURCE, TARGET = Queue("orders", "broker-a", 3), Queue("again", "broker-a", 0)


class Killed(BaseException):
    """The process ends here."""


class ListTarget:
    """A queue in memory. `outcomes` say what happens to the next requests: ok, lost, unanswered (stored), killed (stored)."""

    def __init__(self) -> None:
        self.stored: list[Message] = [Message("again", b"of somebody else")]
        self.outcomes: list[str] = []
        self.requests: list[int] = []

    def send(self, messages: Sequence[Message], queue: Queue) -> Receipt:
        assert queue == TARGET
        outcome = self.outcomes.pop(0) if self.outcomes else "ok"
        self.requests.append(len(messages))
        if outcome == "lost":
            raise SendTimedOutError("again", [])
        at = len(self.stored)
        self.stored += messages
        if outcome == "unanswered":
            raise SendTimedOutError("again", [])
        if outcome == "killed":
            raise Killed
        return Receipt(SendStatus.OK, "id", "offset id", queue, at)

    def end_offset(self, queue: Queue) -> int:
        return len(self.stored)

    def replayed_offsets(self, queue: Queue, start: int, source: Queue) -> list[int]:
        places = [parse_place(message.properties) for message in self.stored[start:]]
        return [place.offset for place in places if place is not None and place.queue == source]

    def bodies(self) -> list[bytes]:
        return [message.body for message in self.stored[1:]]


class Clock:
    now_s = 100.0

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


def one(offset: int, body: bytes | None = None) -> OffsetMessage:
    properties = replayed_properties({}, ReplayedFrom("r1", SOURCE, offset), message_id="x", born_ms=1, store_ms=1)
    return OffsetMessage(offset, Message("again", body or b"%d" % offset, properties=properties))


def replay(target: ListTarget, folder: Path, offsets: Sequence[int], pace: Pace | None = None, clock: Clock | None = None) -> int:
    clock = clock or Clock()
    made = QueueReplay(
        SOURCE, TARGET, target, ProgressFile(folder, SOURCE), pace, retry_s=30, clock=lambda: clock.now_s, sleep=clock.sleep
    )
    made.open()
    for offset in offsets:
        made.add(one(offset))
    made.close()
    return made.sent


def expected(offsets: Sequence[int]) -> list[bytes]:
    return [b"%d" % offset for offset in offsets]


def test_messages_arrive_in_order_and_in_few_requests(tmp_path: Path):
    target = ListTarget()
    assert replay(target, tmp_path, range(5, 2505)) == 2500
    assert target.bodies() == expected(range(5, 2505))
    assert target.requests == [BATCH_MESSAGES, BATCH_MESSAGES, 500]
    assert read_sent(tmp_path) == 2500


def test_a_request_is_bounded_in_bytes(tmp_path: Path):
    target = ListTarget()
    made = QueueReplay(SOURCE, TARGET, target, ProgressFile(tmp_path, SOURCE))
    made.open()
    for offset in range(4):
        made.add(one(offset, b"x" * (BATCH_BYTES // 3)))
    made.close()
    assert target.requests == [2, 2]


def test_a_second_run_sends_only_what_is_new(tmp_path: Path):
    target = ListTarget()
    replay(target, tmp_path, range(100))
    assert replay(target, tmp_path, range(150)) == 50
    assert target.bodies() == expected(range(150))


def test_a_message_that_the_source_has_twice_is_sent_once(tmp_path: Path):
    target = ListTarget()
    replay(target, tmp_path, [1, 1, 2, 2, 3])
    assert target.bodies() == expected([1, 2, 3])


@pytest.mark.parametrize("outcome", ["lost", "unanswered"])
def test_a_request_without_an_answer_is_looked_for_before_it_is_repeated(tmp_path: Path, outcome: str):
    target = ListTarget()
    target.outcomes = ["ok", outcome, outcome]
    replay(target, tmp_path, range(3000))
    assert target.bodies() == expected(range(3000))


def test_a_target_that_takes_nothing_is_an_error_after_a_while(tmp_path: Path):
    target = ListTarget()
    target.outcomes = ["lost"] * 100
    with pytest.raises(ReplayError, match=r"^queue 0 of again at broker-a took no message for 30 s"):
        replay(target, tmp_path, range(10))


@pytest.mark.parametrize("seed", range(50))
def test_killed_runs_lose_and_repeat_nothing(tmp_path: Path, seed: int):
    chance, target = random.Random(seed), ListTarget()
    offsets = sorted(chance.sample(range(20_000), 5_000))
    for _ in range(chance.randrange(1, 6)):
        target.outcomes = [chance.choice(["ok", "ok", "unanswered", "lost"]) for _ in range(chance.randrange(3))] + ["killed"]
        try:
            replay(target, tmp_path, offsets)
        except Killed:
            continue
    target.outcomes = []
    replay(target, tmp_path, offsets)
    assert target.bodies() == expected(offsets)
    assert read_sent(tmp_path) == len(offsets), "messages of killed runs are counted, each once"


def test_the_rate_is_kept(tmp_path: Path):
    clock, target = Clock(), ListTarget()
    replay(target, tmp_path, range(1_000), Pace(100), clock)
    assert clock.now_s - 100 == pytest.approx(9.9)
    assert max(target.requests) == 10


def test_progress_of_another_target_is_an_error(tmp_path: Path):
    replay(ListTarget(), tmp_path, range(3))
    other = QueueReplay(SOURCE, Queue("again", "broker-a", 7), ListTarget(), ProgressFile(tmp_path, SOURCE))
    with pytest.raises(ReplayError, match="the target's queues have changed"):
        other.open()


# --- the folder of a replay


def test_a_folder_belongs_to_one_replay(tmp_path: Path):
    first = open_replay(tmp_path, "orders to again")
    assert open_replay(tmp_path, "orders to again") == first
    with pytest.raises(ReplayError, match=r"has the progress of another replay \(orders to again\)"):
        open_replay(tmp_path, "orders to elsewhere")


def test_damaged_progress_is_an_error(tmp_path: Path):
    open_replay(tmp_path, "x")
    (tmp_path / "replay.json").write_bytes(b"{")
    with pytest.raises(ReplayError, match="does not describe a replay"):
        open_replay(tmp_path, "x")


def test_a_queue_is_sent_by_one_task_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("skyrocket.pipelines.replay.progress_file._LOCK_S", 0.0)
    file = ProgressFile(tmp_path, SOURCE)
    with file.locked(), pytest.raises(ReplayError, match="the replay runs twice"), ProgressFile(tmp_path, SOURCE).locked():
        pass
    with file.locked():
        pass


def test_errors_of_the_client_are_what_a_target_raises():
    assert issubclass(SendTimedOutError, ClientError)
