"""The table of requests is complete, and each row is consistent."""

from __future__ import annotations

from typing import get_args

import pytest

from skyrocket.protocol import headers as h
from skyrocket.protocol.bodies import Body, LockBatchRequestBody, TopicRouteData
from skyrocket.protocol.header import Header
from skyrocket.protocol.permissions import Action, Permission, Resource, resource_fields
from skyrocket.protocol.requests import (
    REQUESTS,
    TO_BROKER,
    TO_CLIENT,
    TO_CONTROLLER,
    TO_NAMESERVER,
    Direction,
    Raw,
    RequestCode,
    RequestSpec,
)
from tests.support.golden import golden_frames

each_row = pytest.mark.parametrize("row", REQUESTS.values(), ids=lambda row: row.name)

# Per 4.9.8 and 5.3: what plain producers and consumers send or are sent, and what administrators' tools and the dashboard send.
CLIENTS_USE = {10, 11, 12, 14, 15, 17, *range(29, 43), 46, 105, 220, 221, 307, 309, 310, 320, 324, 325, 326, 361, 370, 400}
CLIENTS_USE |= {200050, 200051, 200053, 200151}
ADMINS_USE = {12, 15, 17, 18, 21, 25, 26, 28, 29, 30, 33, 50, 51, 52, 53, 100, 101, 102, 105, 106, *range(200, 209), 215, 216}
ADMINS_USE |= {222, 223, 225, 300, 305, 306, 307, 309, *range(315, 320), 321, 327, 328, 329, 351, 354, 355, 401, 902, 903, 907}
ADMINS_USE |= {908, 1002, 1005, 1006, 1007, 1009, 1010, 1011, 2001, 2002, 2003, 2004, *range(3001, 3011), 200056}


def test_a_code_is_found_by_number_and_by_name():
    assert REQUESTS[310] is RequestCode.SEND_MESSAGE_V2.request
    assert REQUESTS[RequestCode.SEND_MESSAGE_V2].name == "SEND_MESSAGE_V2"
    assert RequestCode(105) is RequestCode.GET_ROUTEINFO_BY_TOPIC
    assert RequestCode.PULL_MESSAGE == 11
    assert 13 not in REQUESTS


def test_the_table_has_every_code_that_apache_uses():
    assert not CLIENTS_USE - REQUESTS.keys()
    assert not ADMINS_USE - REQUESTS.keys()
    assert not {golden.request_code for golden in golden_frames()} - REQUESTS.keys()
    assert len(REQUESTS) == len(RequestCode) == 163


def test_no_two_names_share_a_code():
    assert len(RequestCode.__members__) == len(RequestCode), "a second name for a code would hide the second row"


@each_row
def test_a_row_has_values_of_the_right_types(row: RequestSpec):
    assert isinstance(row.code, RequestCode)
    assert isinstance(row.direction, Direction)
    assert isinstance(row.permission, Permission)
    for header in (row.header, row.response_header):
        assert header is None or issubclass(header, Header)
    for body in (row.body, row.response_body):
        of_list = get_args(body)
        assert isinstance(body, Raw) or of_list in [(str,)] or issubclass(of_list[0] if of_list else body, Body)


@each_row
def test_a_row_has_a_receiver(row: RequestSpec):
    elsewhere = Direction.ADMIN_TO_CONTAINER | Direction.CLIENT_TO_FILTER_SERVER
    assert row.direction & (TO_BROKER | TO_CLIENT | TO_NAMESERVER | TO_CONTROLLER | elsewhere)


@each_row
def test_a_permission_on_resources_of_the_header_has_a_header_that_names_one(row: RequestSpec):
    assert row.permission.actions
    if row.permission.resource is Resource.IN_HEADER:
        assert row.header is not None
        assert resource_fields(row.header), f"{row.name}: nothing in {row.header.__name__} names a resource"
    if row.permission.resource is Resource.IN_BODY:
        assert row.body is not Raw.NONE


@each_row
def test_requests_of_brokers_to_the_nameserver_need_permission_to_change_the_cluster(row: RequestSpec):
    if row.direction & Direction.BROKER_TO_NAMESERVER and row.permission.actions & Action.UPDATE:
        assert row.permission == Permission(Resource.CLUSTER, Action.UPDATE)


def test_some_rows_in_full():
    assert REQUESTS[310][1:] == (
        Direction.CLIENT_TO_BROKER,
        Permission(Resource.IN_HEADER, Action.PUB),
        h.SendMessageRequestHeaderV2,
        h.SendMessageResponseHeader,
        Raw.MESSAGE,
        Raw.NONE,
    )
    assert REQUESTS[105].response_body is TopicRouteData
    assert REQUESTS[41].body is LockBatchRequestBody
    assert REQUESTS[25][2:] == (Permission(Resource.CLUSTER, Action.UPDATE), None, None, Raw.PROPERTIES_TEXT, Raw.NONE)


def test_the_five_send_requests_share_their_response_header():
    assert {REQUESTS[code].response_header for code in (10, 310, 320, 324, 325)} == {h.SendMessageResponseHeader}
