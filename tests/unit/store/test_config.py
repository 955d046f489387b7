"""Settings of the store: defaults, and errors for impossible values."""

from __future__ import annotations

import pytest

from skyrocket.store.config import DELAY_LEVELS, StoreConfig, delay_levels_ms
from skyrocket.store.queues.consume_queue import ENTRY_BYTES


def test_defaults_equal_apaches():
    config = StoreConfig()
    assert (config.segment_bytes, config.queue_entries_per_file * ENTRY_BYTES) == (1_073_741_824, 6_000_000)
    assert (config.index_slots, config.index_entries) == (5_000_000, 20_000_000)
    assert (config.reserved_hours, config.delete_at_hour) == (72, 4)


def test_delay_levels_are_read():
    assert delay_levels_ms("1s 5m 2h 1d") == (1_000, 300_000, 7_200_000, 86_400_000)
    assert len(delay_levels_ms(DELAY_LEVELS)) == 18


@pytest.mark.parametrize("text", ["1x", "s", "1s five", "1.5s"])
def test_invalid_delay_levels_are_refused(text: str):
    with pytest.raises(ValueError, match="not a list of delays"):
        StoreConfig(delay_levels=text)


@pytest.mark.parametrize(
    "given",
    [
        {"disk_max_used_percent": 9},
        {"disk_warning_percent": 96},
        {"delete_at_hour": 24},
        {"segment_bytes": 100},
        {"queue_entries_per_file": 0},
        {"index_entries": 1},
    ],
)
def test_impossible_settings_are_refused(given: dict[str, int]):
    with pytest.raises(ValueError, match=r"\."):
        StoreConfig(**given)  # type: ignore[arg-type]
