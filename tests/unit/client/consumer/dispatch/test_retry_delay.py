"""The delay before a failed message is delivered again."""

from __future__ import annotations

import pytest

from skyrocket.client.consumer.dispatch.retry_delay import retry_delay_level, suspend_delay_ms
from skyrocket.client.consumer.limits import ConsumerLimits


def test_each_retry_is_one_delay_level_later_than_the_one_before():
    assert [retry_delay_level(reconsume_times) for reconsume_times in (0, 1, 15)] == [3, 4, 18]


@pytest.mark.parametrize(("requested_ms", "delay_ms"), [(None, 1_000), (500, 500), (0, 10), (60_000, 30_000)])
def test_orderly_queue_pauses_as_the_handler_requested_within_the_limits(requested_ms: int | None, delay_ms: int):
    assert suspend_delay_ms(requested_ms, ConsumerLimits()) == delay_ms
