"""Every typed header refuses the values that Apache refuses, and decodes recorded frames of Apache's programs."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any, get_args

import msgspec
import pytest

from skyrocket.protocol import headers
from skyrocket.protocol.command import Command, CommandDecoder
from skyrocket.protocol.errors import HeaderError
from skyrocket.protocol.header import Header, Int32, Int64, header_from_fields
from skyrocket.protocol.headers import (
    BoundaryType,
    GetConsumeStatsRequestHeader,
    HookHeader,
    PullMessageRequestHeader,
    SearchOffsetRequestHeader,
    SendMessageRequestHeader,
    SendMessageRequestHeaderV2,
)
from skyrocket.protocol.permissions import Resource, resource_fields
from skyrocket.protocol.requests import REQUESTS
from skyrocket.protocol.responses import ResponseCode
from tests.support.golden import GoldenFrame, golden_frames

TYPES: list[type[Header]] = [
    value for name in headers.__all__ if isinstance(value := getattr(headers, name), type) and issubclass(value, Header)
]
each_type = pytest.mark.parametrize("header_type", TYPES, ids=lambda t: t.__name__)

FRAMES = golden_frames()


def is_a(part: Any, field: msgspec.structs.FieldInfo) -> bool:
    return part in (field.type, *get_args(field.type))


def sample(field: msgspec.structs.FieldInfo) -> str:
    if is_a(bool, field):
        return "true"
    return "7" if is_a(Int32, field) or is_a(Int64, field) else "UPPER" if is_a(BoundaryType, field) else "some text"


def all_fields(header_type: type[Header]) -> dict[str, str]:
    return {field.encode_name: sample(field) for field in msgspec.structs.fields(header_type)}


def refused(header_type: type[Header], fields: dict[str, str], name: str) -> None:
    with pytest.raises(HeaderError) as caught:
        header_from_fields(header_type, fields)
    assert (caught.value.header, caught.value.field) == (header_type.__name__, name)
    assert f"{header_type.__name__}: field '{name}' " in str(caught.value)


# each type


def test_every_header_of_the_package_is_exported():
    for module in pkgutil.iter_modules(headers.__path__):
        defined = vars(importlib.import_module(f"skyrocket.protocol.headers.{module.name}"))
        for name, value in defined.items():
            if isinstance(value, type) and value.__module__ == f"skyrocket.protocol.headers.{module.name}":
                assert getattr(headers, name, None) is value, f"{name} is not exported"
                assert name in headers.__all__
    assert len(TYPES) == 150


def test_every_header_belongs_to_a_code():
    used = {row.header for row in REQUESTS.values()} | {row.response_header for row in REQUESTS.values()}
    assert [t.__name__ for t in TYPES if t not in used] == ["HookHeader"], "a header that no request or response has"


@each_type
def test_all_fields_round_trip(header_type: type[Header]):
    fields = all_fields(header_type)
    assert header_from_fields(header_type, fields).to_fields() == fields


@each_type
def test_a_required_field_cannot_be_left_out(header_type: type[Header]):
    for field in msgspec.structs.fields(header_type):
        fields = all_fields(header_type)
        del fields[field.encode_name]
        if field.required:
            refused(header_type, fields, field.encode_name)
        else:
            header_from_fields(header_type, fields)


@each_type
def test_numbers_and_booleans_are_checked(header_type: type[Header]):
    for field in msgspec.structs.fields(header_type):
        wrong = []
        if is_a(Int32, field):
            wrong = ["one", "", "2147483648", "-2147483649"]
        elif is_a(Int64, field):
            wrong = ["one", "", "9223372036854775808", "-9223372036854775809"]
        elif is_a(bool, field):
            wrong = ["perhaps", "", "2"]
        for text in wrong:
            refused(header_type, all_fields(header_type) | {field.encode_name: text}, field.encode_name)


@each_type
def test_only_text_numbers_and_booleans_travel(header_type: type[Header]):
    for field in msgspec.structs.fields(header_type):
        kinds = [kind for kind in (Int32, Int64, bool, BoundaryType) if is_a(kind, field)]
        text = any(part is str or getattr(part, "__origin__", None) is str for part in (field.type, *get_args(field.type)))
        assert len(kinds) + text == 1, f"{header_type.__name__}.{field.name} is of type {field.type}"


# golden frames


# Responses that say "no" without their header: (request code, response code).
WITHOUT_HEADER = {(14, ResponseCode.QUERY_NOT_FOUND)}


def decoded(golden: GoldenFrame) -> Command:
    (command,) = CommandDecoder().feed(golden.frame)
    return command


def header_type_of(golden: GoldenFrame, command: Command) -> type[Header] | None:
    row = REQUESTS[golden.request_code]
    if not command.is_response:
        return row.header
    if (golden.request_code, command.code) in WITHOUT_HEADER:
        return None
    return row.response_header


@pytest.mark.parametrize("golden", FRAMES, ids=[f"{i}-{frame.name}" for i, frame in enumerate(FRAMES)])
def test_a_real_frame_has_exactly_the_fields_of_its_header(golden: GoldenFrame):
    command = decoded(golden)
    header_type = header_type_of(golden, command)
    typed = command.header(header_type).to_fields() if header_type is not None else {}
    hooked = {} if command.is_response else command.header(HookHeader).to_fields()
    assert typed.keys().isdisjoint(hooked)
    assert typed | hooked == command.fields


def test_real_frames_have_headers_to_check():
    with_fields = [golden for golden in FRAMES if decoded(golden).fields]
    responses = [golden for golden in FRAMES if decoded(golden).is_response]
    refusals = [g for g in responses if (g.request_code, decoded(g).code) in WITHOUT_HEADER]
    assert (len(FRAMES), len(with_fields), len(responses), len(refusals)) == (282, 180, 117, 2)
    assert sum("ReqT" in decoded(golden).fields for golden in FRAMES) == 10


def test_every_code_of_the_golden_file_gives_examples_of_its_headers():
    examples: dict[str, set[str]] = {}
    for golden in FRAMES:
        command = decoded(golden)
        header_type = header_type_of(golden, command)
        if header_type is not None:
            command.header(header_type)
            examples.setdefault(header_type.__name__, set()).add(golden.name)
        if command.fields:
            assert header_type is not None, f"{golden.name} has fields, and no typed header"
    assert set(examples) == EXAMPLES
    serializations = {golden.serialize for golden in FRAMES if golden.request_code == 310}
    assert serializations == {"JSON", "ROCKETMQ"}


# The types that a real frame has been read with. A new capture may add some; none goes away.
EXAMPLES = {
    "CheckTransactionStateRequestHeader",
    "ConsumerSendMsgBackRequestHeader",
    "CreateTopicRequestHeader",
    "DeleteTopicFromNamesrvRequestHeader",
    "DeleteTopicRequestHeader",
    "EndTransactionRequestHeader",
    "GetBrokerConfigResponseHeader",
    "GetConsumeStatsInBrokerHeader",
    "GetConsumeStatsRequestHeader",
    "GetConsumerConnectionListRequestHeader",
    "GetConsumerListByGroupRequestHeader",
    "GetConsumerListByGroupResponseHeader",
    "GetMaxOffsetRequestHeader",
    "GetMaxOffsetResponseHeader",
    "GetMinOffsetRequestHeader",
    "GetMinOffsetResponseHeader",
    "GetRouteInfoRequestHeader",
    "GetTopicConfigRequestHeader",
    "GetTopicStatsInfoRequestHeader",
    "HeartbeatRequestHeader",
    "HeartbeatResponseHeader",
    "LockBatchMqRequestHeader",
    "NotifyConsumerIdsChangedRequestHeader",
    "PullMessageRequestHeader",
    "PullMessageResponseHeader",
    "QueryConsumerOffsetRequestHeader",
    "QueryConsumerOffsetResponseHeader",
    "QueryMessageRequestHeader",
    "QueryMessageResponseHeader",
    "RegisterBrokerRequestHeader",
    "RegisterBrokerResponseHeader",
    "ResetOffsetRequestHeader",
    "SearchOffsetRequestHeader",
    "SearchOffsetResponseHeader",
    "SendMessageRequestHeaderV2",
    "SendMessageResponseHeader",
    "UnRegisterBrokerRequestHeader",
    "UnlockBatchMqRequestHeader",
    "UnregisterClientRequestHeader",
    "UnregisterClientResponseHeader",
    "UpdateConsumerOffsetRequestHeader",
    "ViewMessageRequestHeader",
    "ViewMessageResponseHeader",
}


# single types


SEND_V2 = SendMessageRequestHeaderV2(
    producer_group="makers",
    topic="orders",
    default_topic="TBW102",
    default_topic_queue_nums=4,
    queue_id=3,
    sys_flag=0x4,
    born_timestamp=1_700_000_000_000,
    flag=9,
    properties="KEYS\x01k\x02",
    reconsume_times=1,
    unit_mode=False,
    max_reconsume_times=16,
    batch=True,
    broker_name="broker-a",
    namespace="ns1",
)


def test_the_short_send_header_has_one_letter_names():
    assert SEND_V2.to_fields() == {
        "a": "makers",
        "b": "orders",
        "c": "TBW102",
        "d": "4",
        "e": "3",
        "f": "4",
        "g": "1700000000000",
        "h": "9",
        "i": "KEYS\x01k\x02",
        "j": "1",
        "k": "false",
        "l": "16",
        "m": "true",
        "n": "broker-a",
        "ns": "ns1",
    }


def test_short_and_long_send_headers_have_the_same_content():
    long = SEND_V2.to_v1()
    assert long.to_fields() == {
        "producerGroup": "makers",
        "topic": "orders",
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": "4",
        "queueId": "3",
        "sysFlag": "4",
        "bornTimestamp": "1700000000000",
        "flag": "9",
        "properties": "KEYS\x01k\x02",
        "reconsumeTimes": "1",
        "unitMode": "false",
        "maxReconsumeTimes": "16",
        "batch": "true",
        "bname": "broker-a",
        "ns": "ns1",
    }
    assert long.to_v2() == SEND_V2


def test_a_send_header_without_optional_fields_converts_both_ways():
    bare = header_from_fields(
        SendMessageRequestHeader,
        {
            "producerGroup": "g",
            "topic": "t",
            "defaultTopic": "TBW102",
            "defaultTopicQueueNums": "4",
            "queueId": "0",
            "sysFlag": "0",
            "bornTimestamp": "0",
            "flag": "0",
        },
    )
    assert bare.to_v2().to_v1() == bare


@pytest.mark.parametrize(
    ("text", "expected"),
    [("UPPER", BoundaryType.UPPER), ("upper", BoundaryType.UPPER), ("LOWER", BoundaryType.LOWER), ("middle", BoundaryType.LOWER)],
)
def test_a_boundary_is_read_as_java_reads_it(text: str, expected: BoundaryType):
    fields = {"topic": "t", "queueId": "0", "timestamp": "1", "boundaryType": text}
    header = header_from_fields(SearchOffsetRequestHeader, fields)
    assert header.boundary_type is expected
    assert header.to_fields()["boundaryType"] == expected.name


def test_resources_are_found_in_any_header():
    assert set(resource_fields(PullMessageRequestHeader)) == {
        ("consumer_group", Resource.GROUP, ""),
        ("topic", Resource.TOPIC, ""),
    }
    assert resource_fields(type(SEND_V2)) == (("topic", Resource.TOPIC, ""),)


def test_a_list_of_resources_has_a_separator_and_a_field_may_be_optional():
    assert set(resource_fields(GetConsumeStatsRequestHeader)) == {
        ("consumer_group", Resource.GROUP, ""),
        ("topic", Resource.TOPIC, ""),
        ("topic_list", Resource.TOPIC, ";"),
    }
