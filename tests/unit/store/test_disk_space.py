"""What the store does at each level of used disk space."""

from __future__ import annotations

import pytest

from skyrocket.store.config import StoreConfig
from skyrocket.store.disk_space import DiskSpaceActions, decide_disk_actions

CONFIG = StoreConfig(disk_max_used_percent=75, disk_clean_forcibly_percent=85, disk_warning_percent=90)


@pytest.mark.parametrize(
    ("used_percent", "expected"),
    [
        (0.0, DiskSpaceActions(False, False, False)),
        (74.9, DiskSpaceActions(False, False, False)),
        (75.0, DiskSpaceActions(True, False, False)),
        (85.0, DiskSpaceActions(True, True, False)),
        (90.0, DiskSpaceActions(True, True, True)),
        (100.0, DiskSpaceActions(True, True, True)),
    ],
)
def test_each_level_adds_an_action(used_percent: float, expected: DiskSpaceActions):
    assert decide_disk_actions(CONFIG, used_percent) == expected


def test_levels_are_independent_of_their_order():
    config = StoreConfig(disk_max_used_percent=95, disk_clean_forcibly_percent=95, disk_warning_percent=80)
    assert decide_disk_actions(config, 85.0) == DiskSpaceActions(False, False, True)
