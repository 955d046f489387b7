"""Names with namespaces. Tests in golden/ and interop/ compare them with Java's."""

from __future__ import annotations

import pytest

from skyrocket.client.session.namespaces import with_namespace, without_namespace
from skyrocket.protocol.system_names import dead_letter_topic, retry_topic

NAMES = {
    "orders": "shop%orders",
    "%RETRY%coupons": "%RETRY%shop%coupons",
    "%DLQ%coupons": "%DLQ%shop%coupons",
    "TBW102": "TBW102",
    "rmq_sys_wheel_timer": "rmq_sys_wheel_timer",
    "CID_RMQ_SYS_TRANS": "CID_RMQ_SYS_TRANS",
    "": "",
}


@pytest.mark.parametrize(("name", "wire"), NAMES.items())
def test_namespace_is_added_once_and_removed_again(name: str, wire: str):
    assert with_namespace("shop", name) == wire
    assert with_namespace("shop", wire) == wire
    assert without_namespace("shop", wire) == name


def test_names_of_another_namespace_are_unchanged():
    assert without_namespace("shop", "other%orders") == "other%orders"
    assert without_namespace("shop", "shopping%orders") == "shopping%orders"


def test_empty_namespace_changes_nothing():
    assert with_namespace("", "orders") == "orders"
    assert without_namespace("", "shop%orders") == "shop%orders"


def test_retry_and_dead_letter_topics_have_the_namespace_before_the_group():
    group = with_namespace("shop", "coupons")
    assert retry_topic(group) == "%RETRY%shop%coupons"
    assert dead_letter_topic(group) == "%DLQ%shop%coupons"
