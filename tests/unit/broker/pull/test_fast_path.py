"""The fast path answers pulls of one queue together; the first pull that it cannot serve takes the general path."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from skyrocket.broker.pull.fast_path import SHAPES_MAX
from skyrocket.net.limits import NetLimits
from skyrocket.protocol.command import ONEWAY_FLAG, Command, decode_command
from skyrocket.protocol.frame import FrameSplitter, Serialization
from skyrocket.protocol.headers import PullMessageResponseHeader
from skyrocket.protocol.message.record import iterate_records
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from skyrocket.protocol.sysflag import PULL_COMMIT_OFFSET, PULL_SUBSCRIPTION, PULL_SUSPEND
from tests.support.brokers.pull_parts import PullParts, a_filled_disk, a_pull
from tests.support.stores.simulated_disk import SimulatedDisk
from tests.support.stores.store_messages import a_message
from tests.support.twins import KINDS, using


@pytest.fixture(autouse=True, params=KINDS)
def _kind(request: pytest.FixtureRequest) -> Iterator[None]:
    with using(request.param):
        yield


def parts_with_messages(**given: Any) -> PullParts:
    return PullParts(fast_path=True, disk=a_filled_disk(), **given)


def general_pulls(parts: PullParts, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Record the opaque numbers of pulls that take the general path from now on."""
    seen: list[int] = []
    handle = parts.general.handle

    def noting(command: Command, connection: Any) -> Any:
        seen.append(command.opaque)
        return handle(command, connection)

    for code in (11, 361):
        monkeypatch.setitem(parts.server.router._handlers, code, noting)
    return seen


def answers(parts: PullParts) -> list[Command]:
    return [decode_command(frame) for frame in FrameSplitter().feed(parts.transport.written)]


def found(answer: Command) -> tuple[int, list[int], int]:
    """Return a response's opaque number, the offsets of its messages, and the next offset."""
    offsets = [record.queue_offset for record in iterate_records(answer.body)]
    return answer.opaque, offsets, answer.header(PullMessageResponseHeader).next_begin_offset


def test_pulls_of_a_queue_are_answered_together(monkeypatch: pytest.MonkeyPatch):
    parts = parts_with_messages()
    general = general_pulls(parts, monkeypatch)
    parts.connection.data_received(b"".join(a_pull(7 + at, 5 * at, max_msg_nums=5) for at in range(4)))
    assert general == []
    assert [found(answer) for answer in answers(parts)] == [
        (7 + at, list(range(5 * at, 5 * at + 5)), 5 * at + 5) for at in range(4)
    ]
    assert {(answer.code, answer.remark) for answer in answers(parts)} == {(0, "FOUND")}


LARGE = {"segment_bytes": 8 * 1024 * 1024, "queue_file_bytes": 20 * 4_000}


def a_large_disk() -> SimulatedDisk:
    """1,200 messages of 1 KB in each of three queues: 1,024 messages of a queue are 3.4 MB of the log."""
    disk = SimulatedDisk()
    parts = PullParts(fast_path=False, disk=disk, **LARGE)
    for first in range(0, 3_600, 300):
        parts.store.append([a_message("orders", n % 3, bytes(1_000)) for n in range(first, first + 300)], parts.now_ms)
    parts.store.close()
    return disk


@pytest.mark.parametrize(
    ("asked", "stops"),
    [
        ([(0, 1_024), (512, 512), (1_024, 100), (1_124, 76)], [512, 1_024, 1_124, 1_200]),
        ([(0, 550), (550, 1_024)], [550, 1_062]),  # 550 are read at once, 650 are not
        ([(0, 32), (32, 32), (64, 1_024)], [32, 64, 576]),
    ],
)
def test_large_pulls_of_old_messages_that_lie_far_apart_end_early(
    asked: list[tuple[int, int]], stops: list[int], monkeypatch: pytest.MonkeyPatch
):
    """More than 2 MiB of the log are not read at once. No record is read alone for that, on either path."""
    disk = a_large_disk()
    pulls = [a_pull(opaque, one[0], max_msg_nums=one[1], response_bytes_max=4 << 20) for opaque, one in enumerate(asked)]
    states = []
    for fast_path in (True, False):
        parts = PullParts(fast_path=fast_path, disk=disk, **LARGE)
        with monkeypatch.context() as patched:
            patched.setattr(parts.store.reading, "_check_record", lambda *_: pytest.fail("a record was looked at alone"))
            if fast_path:
                patched.setattr(parts.general, "handle_decoded", lambda *_: pytest.fail("a pull took the general path"))
            parts.connection.data_received(b"".join(pulls))
        ends = zip(asked, stops, strict=True)
        expected = [(number, list(range(start, stop)), stop) for number, ((start, _), stop) in enumerate(ends)]
        assert [found(answer) for answer in answers(parts)] == expected
        states.append(parts.state())
        parts.store.close()
    assert states[0] == states[1]


def test_pull_and_commit_offsets_are_stored(monkeypatch: pytest.MonkeyPatch):
    parts = parts_with_messages()
    general = general_pulls(parts, monkeypatch)
    flags = PULL_SUBSCRIPTION | PULL_COMMIT_OFFSET
    parts.connection.data_received(b"".join(a_pull(at, 5 * at, sys_flag=flags, commit_offset=3 * at) for at in range(1, 4)))
    assert general == []
    assert parts.offsets.query("consumers", "orders", 0) == 9
    assert parts.offsets.pull_offset("consumers", "orders", 0) == 15
    get = parts.counters.get
    assert (get.messages, get.times) == (sum(len(found(answer)[1]) for answer in answers(parts)), 3)
    assert parts.slow_consumers.find_slow(0).keys() == {"consumers"}


@pytest.mark.parametrize(
    "given",
    [
        {"flag": ONEWAY_FLAG},
        {"max_msg_nums": -1},
        {"commit_offset": -1},
    ],
    ids=str,
)
def test_first_other_pull_and_all_behind_it_take_the_general_path(given: dict[str, Any], monkeypatch: pytest.MonkeyPatch):
    parts, other = parts_with_messages(), PullParts(fast_path=False, disk=a_filled_disk())
    general = general_pulls(parts, monkeypatch)
    odd = a_pull(2, **{"offset": 0, **given})
    event = a_pull(1, 0) + odd + a_pull(3, 5)
    parts.connection.data_received(event)
    other.connection.data_received(event)
    assert general == [2, 3]
    assert parts.state() == other.state()


@pytest.mark.parametrize("serialization", Serialization)
@pytest.mark.parametrize(
    "given",
    [
        {"offset": 3},
        {"offset": 100_000},
        {"topic": "closed"},
        {"topic": "nowhere"},
        {"queue_id": 99},
        {"queue_id": 2},
        {"queue_id": 2, "hold_ms": 15_000},
        {"consumer_group": "idle"},
        {"consumer_group": "unknown"},
        {"tags": "green"},
        {"tags": "red || blue"},
        {"tags": "colour = 'red'", "expression_type": "SQL92"},
        {"sys_flag": 0},
        {"sys_flag": PULL_SUBSCRIPTION | PULL_COMMIT_OFFSET, "commit_offset": 4},
        {"code": 361},
        {"code": 361, "queue_id": 2, "hold_ms": 15_000},
    ],
    ids=str,
)
def test_ordinary_pulls_are_handled_without_being_decoded(
    given: dict[str, Any], serialization: Serialization, monkeypatch: pytest.MonkeyPatch
):
    """One pull, as a consumer sends it: the second one of a shape is not decoded, and gets what the general path answers."""
    parts, other = parts_with_messages(), PullParts(fast_path=False, disk=a_filled_disk())
    general = general_pulls(parts, monkeypatch)
    for opaque in (1, 2):
        frame = a_pull(opaque, **{"offset": 0, "serialization": serialization, **given})
        parts.connection.data_received(frame)
        other.connection.data_received(frame)
        monkeypatch.setattr("skyrocket.broker.pull.fast_path.decode_command", None)
    assert general == []
    assert parts.state() == other.state()


def test_answer_that_waited_is_that_of_the_general_path():
    """A consumer that waits at the end of its queue gets the message that comes, in its own serialization."""
    states = []
    for fast_path in (True, False):
        parts = PullParts(fast_path=fast_path, disk=a_filled_disk())
        for number, serialization in enumerate(Serialization):
            end = parts.store.queues.get("orders", 1).max_offset  # type: ignore[union-attr]
            given = {"queue_id": 1, "hold_ms": 15_000, "serialization": serialization}
            parts.connection.data_received(a_pull(number, end, **given) + a_pull(number + 10, end, code=361, **given))
            assert parts.general.waiting == 2
            parts.store.append([a_message("orders", 1, b"hello %d" % number)], parts.now_ms)
            parts.general.on_queue_growth([("orders", 1)])
            assert parts.general.waiting == 0
        states.append(sorted(parts.state()["answers"]))
    assert states[0] == states[1]
    assert len(states[0]) == 4


async def test_flow_control_counts_the_frames_as_pulls():
    """A slow read must not pause sends."""
    parts, told = parts_with_messages(), []

    class Gate:
        is_calm = staticmethod(lambda waited_ms, now_ms: True)
        record_round = staticmethod(lambda late_ms, worked_ms, now_ms: None)
        refusal = staticmethod(lambda code, waited_ms, worked_ms, now_ms: None)
        record_served = staticmethod(lambda code, took_ms, now_ms: told.append(code))

    # the server measures its lateness in an event loop
    parts.server.flow_control = Gate()
    parts.connection.data_received(a_pull(1, 0))
    assert told == [RequestCode.PULL_MESSAGE]


def test_pulls_of_another_queue_follow_in_the_same_event(monkeypatch: pytest.MonkeyPatch):
    parts = parts_with_messages()
    general = general_pulls(parts, monkeypatch)
    asked = [(1, 0, 0), (2, 0, 1), (3, 5, 1), (4, 7, 0)]
    parts.connection.data_received(b"".join(a_pull(number, at, queue_id=of, max_msg_nums=2) for number, at, of in asked))
    assert general == []
    assert [(answer.opaque, found(answer)[1][0]) for answer in answers(parts)] == [(1, 0), (2, 0), (3, 5), (4, 7)]


def test_pulls_may_go_back_and_overlap(monkeypatch: pytest.MonkeyPatch):
    parts = parts_with_messages()
    general = general_pulls(parts, monkeypatch)
    parts.connection.data_received(b"".join(a_pull(offset, offset, max_msg_nums=8) for offset in (40, 2, 41, 3)))
    assert general == []
    assert [found(answer)[1] for answer in answers(parts)] == [list(range(at, at + 8)) for at in (40, 2, 41, 3)]


def test_tags_are_filtered_and_unread_entries_take_the_general_path(monkeypatch: pytest.MonkeyPatch):
    parts, other = parts_with_messages(), PullParts(fast_path=False, disk=a_filled_disk())
    event = b"".join(a_pull(at, 10 * at, tags="red || blue", max_msg_nums=6) for at in range(5))
    event += a_pull(9, 0, tags="red", max_msg_nums=32)
    parts.connection.data_received(event)
    other.connection.data_received(event)
    assert parts.state() == other.state()


def test_reset_group_is_answered_with_its_new_offset(monkeypatch: pytest.MonkeyPatch):
    parts = parts_with_messages()
    parts.offsets.reset("consumers", "orders", 0, 3)
    general = general_pulls(parts, monkeypatch)
    parts.connection.data_received(a_pull(1, 0) + a_pull(2, 5))
    assert general == [1, 2]
    assert [answer.code for answer in answers(parts)] == [ResponseCode.PULL_OFFSET_MOVED, 0]


def test_pull_at_the_end_of_the_queue_waits():
    parts = parts_with_messages()
    queue = parts.store.queues.get("orders", 0)
    assert queue is not None
    flags = PULL_SUBSCRIPTION | PULL_SUSPEND
    last = queue.max_offset - 2
    pulls = [a_pull(number, offset, sys_flag=flags, hold_ms=60_000) for number, offset in ((1, last), (2, last + 2))]
    parts.connection.data_received(b"".join(pulls))
    assert [found(answer)[:2] for answer in answers(parts)] == [(1, [last, last + 1])]
    assert parts.general.waiting == 1


def test_broker_limits_apply():
    parts = parts_with_messages(pull_messages_max=4, pull_bytes_max=2_000)
    parts.connection.data_received(
        a_pull(1, 0, max_msg_nums=1_000) + a_pull(2, 0, max_msg_nums=0) + a_pull(3, 9, max_msg_bytes=1)
    )
    first, second, third = [found(answer)[1] for answer in answers(parts)]
    assert 1 <= len(first) <= 4
    assert (second, third) == ([0], [9])


def test_peer_that_does_not_read_gets_no_more_responses():
    """Responses are built up to a bound; the remaining requests wait until the peer reads."""
    parts = PullParts(fast_path=True, disk=a_filled_disk())
    parts.connection._limits = NetLimits(unwritten_high_bytes=10_000)
    parts.transport.get_write_buffer_size = lambda: len(parts.transport.written)  # type: ignore[method-assign]
    parts.connection.data_received(b"".join(a_pull(at, at % 40) + a_pull(at + 1, at % 40, queue_id=1) for at in range(0, 80, 2)))
    assert len(parts.transport.written) < 80_000
    assert parts.connection.deferred


def test_unreadable_log_is_answered_by_the_general_path(monkeypatch: pytest.MonkeyPatch):
    disk = a_filled_disk()
    for path in [path for path in disk.nodes if "consumequeue/orders/0/" in path]:
        content = disk.nodes[path].content
        content[20 * 7 + 10] ^= 1  # the size of an entry
    parts, other = PullParts(fast_path=True, disk=disk.copy()), PullParts(fast_path=False, disk=disk.copy())
    event = a_pull(1, 0, max_msg_nums=4) + a_pull(2, 4, max_msg_nums=4) + a_pull(3, 8, max_msg_nums=4)
    parts.connection.data_received(event)
    other.connection.data_received(event)
    assert parts.state() == other.state()
    assert [found(answer)[1] for answer in answers(parts)] == [list(range(at, at + 4)) for at in (0, 4, 8)], (
        "the general path repaired the entry"
    )


def test_cache_of_header_shapes_is_bounded():
    parts = parts_with_messages()
    for number in range(SHAPES_MAX + 10):
        parts.connection.data_received(a_pull(number, 0, max_msg_nums=1, proxy_forward_client_id=f"client-{number}"))
    assert 0 < len(parts.fast_path._learned) <= SHAPES_MAX


def test_changed_settings_topics_and_groups_apply_at_once():
    parts = parts_with_messages()
    parts.connection.data_received(a_pull(1, 0))
    config = parts.topics.get("orders")
    assert config is not None
    config.perm = 2
    parts.connection.data_received(a_pull(2, 0))
    config.perm = 6
    parts.connection.data_received(a_pull(3, 0))
    assert [answer.code for answer in answers(parts)] == [0, ResponseCode.NO_PERMISSION, 0]
