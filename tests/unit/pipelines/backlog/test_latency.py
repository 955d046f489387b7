"""Percentiles, bins and what a message trace tells."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from skyrocket.pipelines.backlog.latency import BIN_EDGES_MS, percentile, summarize, trace_latencies
from skyrocket.protocol.message.trace import TraceRow, TraceType


def test_percentiles_by_the_nearest_rank():
    found = summarize("to store", "orders", range(1, 101))
    assert found is not None
    assert found.percentiles_ms == (50, 90, 99, 100)
    assert summarize("to store", "orders", []) is None
    assert percentile([7], 50) == percentile([7], 100) == 7


@given(st.lists(st.integers(-1_000, 10_000_000), min_size=1))
def test_bins_have_every_value_once(values: list[int]):
    found = summarize("x", "y", values)
    assert found is not None
    assert sum(found.bins) == found.messages == len(values)
    assert len(found.bins) == len(BIN_EDGES_MS)
    assert found.percentiles_ms[-1] == max(0, *values)


def row(kind: TraceType, message: str, **fields: object) -> TraceRow:
    return TraceRow(type=kind, message_id=message, **fields)  # type: ignore[arg-type]


def test_a_trace_tells_when_handlers_began_and_ended():
    rows = [
        row(TraceType.PUB, "m1", time_ms=1_000, topic="orders"),
        row(TraceType.SUB_BEFORE, "m1", time_ms=1_030, group="coupons", request_id="r1"),
        row(TraceType.SUB_AFTER, "m1", cost_ms=12, request_id="r1"),
        row(TraceType.SUB_BEFORE, "m1", time_ms=9_000, group="coupons", request_id="r2", retry_times=1),
        row(TraceType.SUB_BEFORE, "m2", time_ms=1_030, group="coupons", request_id="r3"),  # its send is not traced
        row(TraceType.SUB_BEFORE, "m1", time_ms=1_005, group="sms", request_id="r4"),  # not finished
    ]
    found = {(one.what, one.where): one.percentiles_ms[0] for one in trace_latencies(rows)}
    assert found == {("send to handler", "coupons"): 30, ("send to handler", "sms"): 5, ("end to end", "coupons"): 42}
