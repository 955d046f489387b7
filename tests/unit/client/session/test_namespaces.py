"""Names with namespaces. That they are Java's, golden/ and interop/ say."""

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
def test_a_name_gets_its_namespace_once_and_loses_it_again(name: str, wire: str):
    assert with_namespace("shop", name) == wire
    assert with_namespace("shop", wire) == wire
    assert without_namespace("shop", wire) == name


def test_names_of_another_namespace_stay_what_they_are():
    assert without_namespace("shop", "other%orders") == "other%orders"
    assert without_namespace("shop", "shopping%orders") == "shopping%orders"


def test_without_a_namespace_nothing_happens():
    assert with_namespace("", "orders") == "orders"
    assert without_namespace("", "shop%orders") == "shop%orders"


def test_a_groups_own_topics_have_the_namespace_inside():
    group = with_namespace("shop", "coupons")
    assert retry_topic(group) == "%RETRY%shop%coupons"
    assert dead_letter_topic(group) == "%DLQ%shop%coupons"
