"""The quota of a client, over simulated time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyrocket.net.quota import BURST_MS, DEBT_MS_MAX, Quota, QuotaRates

BYTES = QuotaRates(bytes_per_second=1_000)


def test_a_quiet_client_may_use_a_seconds_worth_at_once_and_then_owes():
    quota = Quota()
    assert quota.charge(BYTES, 1, 1_000, now_ms=50_000) == 0
    assert quota.charge(BYTES, 1, 500, now_ms=50_000) == 500
    assert quota.debt_ms(50_200) == 300
    assert quota.debt_ms(50_500) == 0


def test_requests_and_bytes_are_counted_apart_and_the_greater_debt_counts():
    quota = Quota()
    rates = QuotaRates(requests_per_second=10, bytes_per_second=1_000)
    assert quota.charge(rates, 30, 0, now_ms=50_000) == 2_000
    assert quota.charge(rates, 0, 1_500, now_ms=50_000) == 2_000
    assert quota.charge(rates, 0, 2_500, now_ms=50_000) == 3_000


def test_a_debt_has_an_end():
    quota = Quota()
    assert quota.charge(BYTES, 1, 10**12, now_ms=50_000) == DEBT_MS_MAX
    assert quota.debt_ms(50_000 + DEBT_MS_MAX) == 0


@pytest.mark.parametrize("rates", [QuotaRates(), QuotaRates(requests_per_second=5)])
def test_what_has_no_limit_is_not_counted(rates: QuotaRates):
    assert Quota().charge(rates, 1, 10**12, now_ms=50_000) == 0
    assert QuotaRates(requests_per_second=5).are_limited
    assert not QuotaRates().are_limited


@given(st.lists(st.tuples(st.integers(0, 500), st.integers(1, 3_000)), min_size=1, max_size=200))
def test_a_client_that_pays_its_debts_never_exceeds_its_rate(events: list[tuple[int, int]]):
    """Events of (pause in ms, bytes): the client waits for its debt before each event, as a paused connection does."""
    quota, began_ms, now_ms, used_bytes = Quota(), 50_000, 50_000, 0
    for pause_ms, size_bytes in events:
        now_ms += pause_ms + quota.debt_ms(now_ms + pause_ms)
        allowed = (now_ms - began_ms + BURST_MS) * BYTES.bytes_per_second / 1000
        assert used_bytes <= allowed + 1  # before this event: one event may exceed the quota, and is paid for afterwards
        quota.charge(BYTES, 1, size_bytes, now_ms)
        used_bytes += size_bytes
