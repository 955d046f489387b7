"""Keys that only Apache's servers have: accepted with one warning, or refused when ignoring them would break a promise."""

from __future__ import annotations

import pytest

from skyrocket.broker.settings import BrokerSettings
from skyrocket.nameserver.settings import NameserverSettings
from skyrocket.settings.errors import SettingsError
from skyrocket.settings.foreign_keys import only_with, separate_foreign, without_effect

FOREIGN = {
    **without_effect("there are no threads", "threads moreThreads"),
    **without_effect("there is no disk", "disk"),
    **only_with("there is no replication", {"role": "ASYNC_MASTER", "copies": "|1"}),
}


def test_keys_without_effect_are_taken_out_and_named_in_one_warning():
    own, warning = separate_foreign({"threads": "8", "mine": "1", "disk": "x", "moreThreads": "9"}, FOREIGN, "the lamp")
    assert own == {"mine": "1"}
    assert warning == (
        "These keys of Apache's have no effect on the lamp: threads, moreThreads (there are no threads); disk (there is no disk)."
    )


@pytest.mark.parametrize("texts", [{}, {"mine": "1"}, {"role": " async_master "}, {"copies": ""}, {"copies": "1"}])
def test_there_is_no_warning_when_every_value_says_what_the_server_does(texts: dict[str, str]):
    assert separate_foreign(texts, FOREIGN, "the lamp")[1] is None


def test_a_value_that_asks_for_more_is_refused():
    with pytest.raises(SettingsError) as refused:
        separate_foreign({"role": "SYNC_MASTER", "copies": "2", "threads": "8"}, FOREIGN, "the lamp")
    assert str(refused.value) == (
        "role=SYNC_MASTER is not possible: there is no replication. Use role=ASYNC_MASTER, or remove it. "
        "copies=2 is not possible: there is no replication. Use copies= or copies=1, or remove it."
    )


@pytest.mark.parametrize("table", [BrokerSettings, NameserverSettings])
def test_no_setting_is_taken_out(table: type[BrokerSettings | NameserverSettings]):
    texts = table().to_texts()
    assert table.separate_foreign(texts) == (texts, None)


def test_a_request_gets_the_reason():
    with pytest.raises(
        SettingsError, match="sendMessageThreadPoolNums has no effect on the broker: one thread serves all requests"
    ):
        BrokerSettings().change_by_request({"sendMessageThreadPoolNums": "8"})


@pytest.mark.parametrize(("key", "meant"), [("brokerIp1", "brokerIP1"), ("brokerClusterNam", "brokerClusterName")])
def test_a_misspelt_key_is_answered_with_the_right_one(key: str, meant: str):
    with pytest.raises(SettingsError) as refused:
        BrokerSettings().with_texts({key: "1"})
    assert str(refused.value) == f"'{key}' is not a setting of the broker (did you mean {meant}?)."
