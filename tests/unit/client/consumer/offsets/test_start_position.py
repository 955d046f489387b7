"""Where a group begins."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from skyrocket.client.consumer.offsets.start_position import Place, moment_ms, start_position
from skyrocket.client.errors import ConfigurationError


@pytest.mark.parametrize(
    ("start", "at_topic", "at_retry_topic"),
    [
        ("first", Place.BEGINNING, Place.BEGINNING),
        ("last", Place.END, Place.BEGINNING),
        (1_700_000_000_000, Place.MOMENT, Place.END),
    ],
)
def test_the_rules_are_javas(start, at_topic, at_retry_topic):
    position = start_position(start)
    assert (position.place(is_retry=False), position.place(is_retry=True)) == (at_topic, at_retry_topic)


def test_a_moment_is_a_datetime_with_a_zone_or_milliseconds():
    assert moment_ms(datetime(2024, 1, 1, tzinfo=UTC)) == 1_704_067_200_000
    assert start_position(5).at_ms == 5
    for wrong in (datetime(2024, 1, 1), "yesterday", -1, True, 1.5):  # noqa: DTZ001 — that is the point
        with pytest.raises(ConfigurationError):
            moment_ms(wrong)
