"""Where a group without committed offsets starts."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from skyrocket.client.consumer.offsets.start_position import StartOffset, parse_start, to_epoch_ms
from skyrocket.client.errors import ConfigurationError


@pytest.mark.parametrize(
    ("start", "in_topic", "in_retry_topic"),
    [
        ("first", StartOffset.MIN, StartOffset.MIN),
        ("last", StartOffset.MAX, StartOffset.MIN),
        (1_700_000_000_000, StartOffset.TIMESTAMP, StartOffset.MAX),
    ],
)
def test_start_offsets_equal_those_of_the_java_client(start, in_topic, in_retry_topic):
    position = parse_start(start)
    assert (position.start_offset(is_retry=False), position.start_offset(is_retry=True)) == (in_topic, in_retry_topic)


def test_time_is_a_datetime_with_a_time_zone_or_milliseconds():
    assert to_epoch_ms(datetime(2024, 1, 1, tzinfo=UTC)) == 1_704_067_200_000
    assert parse_start(5).at_ms == 5
    for wrong in (datetime(2024, 1, 1), "yesterday", -1, True, 1.5):  # noqa: DTZ001 — no time zone, on purpose
        with pytest.raises(ConfigurationError):
            to_epoch_ms(wrong)
