"""The documents agree with the code."""

from __future__ import annotations

from pathlib import Path

from skyrocket.broker.settings import BrokerSettings
from skyrocket.protocol.config_text import decode_config

ROOT = Path(__file__).resolve().parents[3]


def test_settings_table_has_every_key_its_default_and_whether_it_is_changeable():
    lines = [line for line in (ROOT / "docs/broker.md").read_text().splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    documented = {row[0]: (row[1], row[2] == "yes") for row in cells if row[0] in BrokerSettings.rows()}
    assert set(documented) == set(BrokerSettings.rows())
    defaults = BrokerSettings().to_texts()
    for key, (default, live) in documented.items():
        assert live == BrokerSettings.rows()[key].changeable, key
        if key in defaults and key not in ("brokerIP1", "brokerConfigPath", "messageDelayLevel"):
            assert default == defaults[key], key


def test_production_sample_is_valid_and_disables_auto_creation():
    settings = BrokerSettings().with_texts(decode_config((ROOT / "conf/broker.conf").read_bytes()))
    assert not settings.auto_create_topic
    assert not settings.auto_create_group
    assert settings.sync_flush
