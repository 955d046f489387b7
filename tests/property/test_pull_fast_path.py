"""The fast path and the general path of pulls give the same responses, offsets and counts for any frames."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from skyrocket.broker.replication.roles import BrokerRole
from skyrocket.protocol.frame import Serialization, join_frame
from tests.property.test_send_fast_path import mostly
from tests.support.brokers.pull_parts import PullParts, a_filled_disk, a_request
from tests.support.brokers.running_broker import pull_header
from tests.support.twins import KINDS, using

DISK = a_filled_disk()
# With the memory of a small machine: some messages are behind the limit of the read split, and some are not.
SPLITS: list[dict[str, Any]] = [
    {"slave_read": True, "memory_bytes": 100_000, "role": role} for role in (BrokerRole.ASYNC_MASTER, BrokerRole.SLAVE)
]
ODD = [b"", b'"', b"\\", b"0", b"-", b"9" * 20, b"}", b",", b'"opaque":7,', b'"queueOffset":"3",', b" ", b"\0", b"\xff", b'"1"']


@st.composite
def frames(draw: st.DrawFn) -> bytes:
    """Generate frames, mostly of pulls that find messages and have headers of one shape."""
    values: dict[str, Any] = {
        "consumer_group": draw(mostly(["consumers"], ["idle", "unknown"])),
        "queue_id": draw(mostly([0, 0, 1], [2, 3, -1])),
        "sys_flag": draw(st.sampled_from([4, 4, 4, 5, 6, 0])),
        "max_msg_nums": draw(mostly([1, 3, 32], [0, -1, 5000, 2**31])),
        "commit_offset": draw(mostly([0, 7], [-1])),
        "max_msg_bytes": draw(st.sampled_from([None, None, 1500])),
        "response_bytes_max": draw(st.sampled_from([None, None, -1, 0, 3000, 2**22, 2**31 - 1])),
        "tags": draw(mostly(["*"], ["red", "red || blue", "green", ""])),
        "expression_type": draw(mostly(["TAG"], [None, "SQL92", "?"])),
        "hold_ms": draw(mostly([0], [30_000])),
    }
    offset = draw(mostly(list(range(0, 110, 9)), [-1, 111, 10**6, 2**63]))
    fields = pull_header(draw(mostly(["orders"], ["closed", "nowhere"])), offset, **values).to_fields()
    if draw(mostly([False], [True])):
        del fields[draw(st.sampled_from(sorted(fields)))]
    serialization = draw(st.sampled_from([Serialization.JSON, Serialization.JSON, Serialization.ROCKETMQ]))
    opaque = draw(mostly([1, 2, 3], [-1, 2**31 - 1 if serialization else 2**31]))
    code = draw(st.sampled_from([11, 11, 361, 12345]))
    frame = a_request(opaque, fields, draw(mostly([0], [1, 2])), code, serialization)
    header = frame[8:]
    if draw(mostly([False], [True])):
        at = draw(st.integers(0, len(header) - 1))
        header = header[:at] + draw(st.sampled_from(ODD)) + header[at + draw(st.integers(0, 2)) :]
    return join_frame(draw(mostly([serialization], [0, 1])), header, draw(mostly([b""], [b"body"])))


@pytest.mark.parametrize("kind", KINDS)
@given(
    events=st.lists(st.lists(frames(), min_size=1, max_size=8), min_size=1, max_size=4),
    reset=st.sampled_from([None, None, None, 5]),
    changes=st.sampled_from([{}, {}, {"pull_messages_max": 4}, {"pull_bytes_max": 1024}, *SPLITS]),
)
@settings(max_examples=150, deadline=None)
def test_both_paths_give_the_same_responses(kind: str, events: list[list[bytes]], reset: int | None, changes: dict[str, Any]):
    async def played(fast_path: bool) -> PullParts:
        parts = PullParts(fast_path=fast_path, disk=DISK.copy(), **changes)
        if reset is not None:
            parts.offsets.reset("consumers", "orders", 0, reset)
        for one in events:
            parts.connection.data_received(b"".join(one))
        return parts

    async def main() -> None:
        short, general = await played(True), await played(False)
        assert short.state() == general.state()
        event("some took the fast path" if short.fast_path._learned else "all took the general path")

    with using(kind):
        asyncio.run(main())
