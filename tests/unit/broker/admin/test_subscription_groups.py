from __future__ import annotations

from skyrocket.protocol.bodies import (
    GroupForbidden,
    QuerySubscriptionResponseBody,
    SubscriptionGroupConfig,
    SubscriptionGroupWrapper,
    TopicList,
)
from skyrocket.protocol.responses import ResponseCode
from tests.unit.broker.parts import Parts


def test_group_is_created_changed_and_described():
    parts = Parts(auto_create_group=False)
    assert parts.ask(200, {"groupName": "billing", "retryMaxTimes": 3}).code == ResponseCode.SUCCESS
    shown = parts.answer(SubscriptionGroupConfig, 352, group="billing")
    assert shown == SubscriptionGroupConfig(group_name="billing", retry_max_times=3)
    assert parts.ask(200).code == ResponseCode.SUCCESS, "like Apache's broker, for an empty request"


def test_invalid_group_is_refused():
    parts = Parts()
    assert parts.ask(200, {"groupName": "a/b"}).code == ResponseCode.INVALID_PARAMETER
    assert parts.ask(200, {"groupName": ""}).code == ResponseCode.INVALID_PARAMETER
    assert parts.ask(200, b"{").code == ResponseCode.SYSTEM_ERROR
    assert parts.ask(200, {"groupName": "billing", "attributes": {"+nope": "1"}}).code == ResponseCode.SYSTEM_ERROR
    assert parts.ask(225, {"groupConfigList": [{"groupName": "x"}, {"groupName": "a/b"}]}).code == ResponseCode.INVALID_PARAMETER
    assert "x" not in parts.groups
    assert parts.ask(225).code == parts.ask(225, {}).code == ResponseCode.SYSTEM_ERROR


def test_several_groups_are_created_with_one_request():
    parts = Parts()
    assert parts.ask(225, {"groupConfigList": [{"groupName": "x"}, {"groupName": "y"}]}).code == ResponseCode.SUCCESS
    assert {"x", "y"} <= set(parts.groups)


def test_describing_an_unknown_group_creates_it_only_with_auto_creation():
    assert Parts().ask(352, group="billing").code == ResponseCode.SUCCESS
    assert Parts(auto_create_group=False).ask(352, group="billing").code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    assert Parts().ask(352, group="a/b").code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


def test_deleted_group_keeps_its_offsets_unless_the_request_removes_them():
    parts = Parts()
    for clean, left in ((False, ["orders"]), (True, [])):
        parts.groups.for_consumer("billing")
        parts.offsets.commit("billing", "orders", 0, 2)
        assert parts.ask(207, groupName="billing", cleanOffset=clean).code == ResponseCode.SUCCESS
        assert "billing" not in parts.groups
        assert parts.offsets.topics_of("billing") == left
    assert parts.ask(207, groupName="billing").code == ResponseCode.SUCCESS
    assert "billing" not in parts.groups


def test_all_groups_are_listed_at_once_or_by_page():
    parts = Parts()
    parts.groups.for_consumer("billing")
    parts.groups.forbid("billing", "orders", forbidden=True)
    answer = parts.ask(201)
    assert answer.fields == {"totalGroupNum": "9"}
    everything = parts.answer(SubscriptionGroupWrapper, 201)
    assert set(everything.subscription_group_table) == set(parts.groups)
    assert everything.forbidden_table == {"billing": {"orders": 4}}
    page = parts.answer(SubscriptionGroupWrapper, 201, groupSeq=0, maxGroupNum=2, dataVersion="")
    assert list(page.subscription_group_table) == sorted(parts.groups)[:2]
    assert page.forbidden_table == {}
    assert page.data_version == parts.groups.version


def test_a_topic_is_forbidden_to_a_group_and_allowed_again():
    parts = Parts()
    parts.groups.for_consumer("billing")

    def readable(**more: bool) -> bool | None:
        return parts.answer(GroupForbidden, 353, group="billing", topic="orders", **more).readable

    assert [readable(), readable(readable=False), readable(), readable(readable=True)] == [True, False, False, True]
    assert parts.ask(353, group="nobody", topic="orders", readable=False).code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


def test_topics_of_a_group_are_found_by_offsets_and_by_subscription():
    parts = Parts()
    parts.offsets.commit("billing", "orders", 0, 2)
    listed = parts.answer(TopicList, 343, group="billing")
    assert (listed.topic_list, listed.broker_addr) == (["orders"], "127.0.0.1:10911")
    assert parts.answer(TopicList, 343, group="nobody").topic_list == []
    away = parts.answer(QuerySubscriptionResponseBody, 345, group="billing", topic="orders")
    assert (away.group, away.topic, away.subscription_data) == ("billing", "orders", None)
    parts.joins("billing")
    here = parts.answer(QuerySubscriptionResponseBody, 345, group="billing", topic="orders")
    assert here.subscription_data is not None
    assert parts.ask(345, group="billing").code == ResponseCode.SYSTEM_ERROR
