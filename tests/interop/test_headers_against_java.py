"""Our headers and codes are those of Apache RocketMQ 5.5.0, asked of its own classes; each difference is listed with a reason."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, get_args

import msgspec
import pytest

from skyrocket.protocol import headers
from skyrocket.protocol.header import Header, Int32, Int64
from skyrocket.protocol.headers import BoundaryType
from skyrocket.protocol.permissions import Action, Permission, Resource, resource_fields
from skyrocket.protocol.requests import REQUESTS
from skyrocket.protocol.responses import ResponseCode
from tests.support.apache.packages import run_java

pytestmark = pytest.mark.interop

SOURCE = Path(__file__).parent / "java" / "HeaderFields.java"

OURS: dict[str, type[Header]] = {
    name: value for name in headers.__all__ if isinstance(value := getattr(headers, name), type) and issubclass(value, Header)
}

# headers

NO_CODE_USES = {
    "CheckTransactionStateResponseHeader",  # 39 is oneway; the answer is an END_TRANSACTION
    "InitConsumerOffsetRequestHeader",
    "RegisterOrderTopicRequestHeader",
    "StatisticsMessagesRequestHeader",
}
ONLY_4_X = {
    "CreateAccessConfigRequestHeader",
    "DeleteAccessConfigRequestHeader",
    "GetBrokerAclConfigResponseHeader",
    "RegisterFilterServerRequestHeader",
    "RegisterFilterServerResponseHeader",
    "RegisterMessageFilterClassRequestHeader",
    "UpdateGlobalWhiteAddrsConfigRequestHeader",
}
WITHOUT_A_CLASS = {  # Java sets and reads these fields one by one
    "HeartbeatResponseHeader",
    "HookHeader",
    "SetCommitLogReadModeRequestHeader",
    "SwitchTimerEngineRequestHeader",
}
BESIDE_THE_CLASS = {  # the same, for single fields
    ("QueryMessageRequestHeader", "_UNIQUE_KEY_QUERY"),
    ("SendMessageResponseHeader", "MSG_REGION"),
    ("SendMessageResponseHeader", "TRACE_ON"),
}
EXTENSIONS = {("PullMessageRequestHeader", "responseBytesMax")}  # ours; Apache's brokers ignore them: docs/protocol.md
REQUIRED_ONLY_THERE = {  # 4.9 has no header for these
    ("GetAllSubscriptionGroupRequestHeader", "groupSeq"),
    ("GetAllSubscriptionGroupResponseHeader", "totalGroupNum"),
    ("GetAllTopicConfigRequestHeader", "topicSeq"),
}
NAMED_ONLY_HERE = {("GetRouteInfoRequestHeader", "topic")}  # Java's authorization reads this topic by its name

JAVA_TYPES = {
    "String": str,
    "Integer": Int32,
    "int": Int32,
    "Long": Int64,
    "long": Int64,
    "Boolean": bool,
    "boolean": bool,
    "BoundaryType": BoundaryType,
}

# codes

DECLARED_ONLY = {  # neither sent nor handled in 5.5.0
    13: "QUERY_BROKER_OFFSET",
    22: "GET_TOPIC_CONFIG_LIST",
    23: "GET_TOPIC_NAME_LIST",
    27: "TRIGGER_DELETE_FILES",
    47: "GET_CLIENT_CONFIG",
    209: "SUSPEND_CONSUMER",
    210: "RESUME_CONSUMER",
    211: "RESET_CONSUMER_OFFSET_IN_CONSUMER",
    212: "RESET_CONSUMER_OFFSET_IN_BROKER",
    213: "ADJUST_CONSUMER_THREAD_POOL",
    214: "WHO_CONSUME_THE_MESSAGE",
    200072: "ACK_LITE_MESSAGE",
}
IN_THE_CONTROLLERS_LOG = {  # entries of the log that controllers replicate among themselves; no peer sends them
    1014: "BROKER_CLOSE_CHANNEL_REQUEST",
    1015: "CHECK_NOT_ACTIVE_BROKER_REQUEST",
    1016: "GET_BROKER_LIVE_INFO_REQUEST",
    1017: "GET_SYNC_STATE_DATA_REQUEST",
    1018: "RAFT_BROKER_HEART_BEAT_EVENT_REQUEST",
}
ONLY_4_X_CODES = {
    50: "UPDATE_AND_CREATE_ACL_CONFIG",
    51: "DELETE_ACL_CONFIG",
    52: "GET_BROKER_CLUSTER_ACL_INFO",
    53: "UPDATE_GLOBAL_WHITE_ADDRS_CONFIG",
}

# Java's authorization treats these by code and does not ask the class: what it asks for.
AUTHORIZED_BY_CODE = {
    14: Permission(Resource.IN_HEADER, Action.SUB | Action.GET),
    15: Permission(Resource.IN_HEADER, Action.SUB | Action.UPDATE),
    34: Permission(Resource.IN_BODY, Action.SUB),
    35: Permission(Resource.IN_HEADER, Action.SUB),
    38: Permission(Resource.IN_HEADER, Action.SUB | Action.GET),
    41: Permission(Resource.IN_BODY, Action.SUB),
    42: Permission(Resource.IN_BODY, Action.SUB),
    105: Permission(Resource.IN_HEADER, Action.PUB | Action.SUB | Action.GET),
}
# The class says that the header names the topics; they are in the body.
NAMED_IN_THE_BODY = {18: Permission(Resource.IN_BODY, Action.CREATE)}


class JavaField(NamedTuple):
    type: str
    required: bool
    resource: str
    separator: str


class Java(NamedTuple):
    fields: dict[str, dict[str, JavaField]]
    permissions: dict[int, tuple[str, Permission]]  # code -> class, what it declares
    requests: dict[int, str]
    responses: dict[int, str]


@cache
def java() -> Java:
    told = Java({}, {}, {}, {})
    for line in run_java(SOURCE).decode().splitlines():
        kind, name, *columns = line.split("\t")
        if kind == "header":
            told.fields[name] = {}
            code, resource, actions = columns
            if code != "-" and not name.endswith("ResponseHeader"):
                on = Resource.IN_HEADER if resource == "UNKNOWN" else Resource[resource]
                needed = Action(0)
                for action in actions.split(","):
                    needed |= Action[action]
                told.permissions[int(code)] = (name, Permission(on, needed))
        elif kind == "field":
            field, of_type, required, resource, separator = columns
            told.fields[name][field] = JavaField(of_type, required == "required", resource, separator)
        else:
            codes = {"request": told.requests, "response": told.responses}[kind]
            codes[int(columns[0])] = name
    return told


@pytest.fixture(scope="module")
def apache() -> Java:
    told = java()
    assert len(told.fields) > 140
    assert len(told.requests) > 160
    return told


def fields_of(header_type: type[Header]) -> dict[str, msgspec.structs.FieldInfo]:
    return {field.encode_name: field for field in msgspec.structs.fields(header_type)}


def type_of(field: msgspec.structs.FieldInfo) -> Any:
    parts = [part for part in (field.type, *get_args(field.type)) if part is not type(None)]
    return next((kind for kind in (Int32, Int64, bool, BoundaryType) if kind in parts), str)


def shared(apache: Java) -> list[tuple[str, str, msgspec.structs.FieldInfo, JavaField]]:
    """(class, wire name, our field, Java's field) of all that both sides have."""
    return [
        (name, wire, ours, apache.fields[name][wire])
        for name, header_type in OURS.items()
        if name in apache.fields
        for wire, ours in fields_of(header_type).items()
        if wire in apache.fields[name]
    ]


def test_the_same_classes(apache: Java):
    assert apache.fields.keys() - OURS.keys() == NO_CODE_USES
    assert OURS.keys() - apache.fields.keys() == ONLY_4_X | WITHOUT_A_CLASS


def test_the_same_names_on_the_wire(apache: Java):
    ours = {(name, wire) for name in OURS if name in apache.fields for wire in fields_of(OURS[name])}
    theirs = {(name, wire) for name, fields in apache.fields.items() if name in OURS for wire in fields}
    assert theirs - ours == set()
    assert ours - theirs == BESIDE_THE_CLASS | EXTENSIONS
    assert len(theirs) > 680


def test_the_same_types(apache: Java):
    different = [
        f"{name}.{wire} is {type_of(ours)}, Java's {theirs.type}"
        for name, wire, ours, theirs in shared(apache)
        if type_of(ours) is not JAVA_TYPES[theirs.type]
    ]
    assert different == []


def test_the_same_fields_are_required(apache: Java):
    only_there = {(name, wire) for name, wire, ours, theirs in shared(apache) if theirs.required and not ours.required}
    only_here = {(name, wire) for name, wire, ours, theirs in shared(apache) if ours.required and not theirs.required}
    assert only_there == REQUIRED_ONLY_THERE
    assert only_here == set()


def test_the_same_fields_name_resources(apache: Java):
    ours = {
        (name, wire): (resource.name, separator or "-")
        for name, header_type in OURS.items()
        if name in apache.fields
        for attribute, resource, separator in resource_fields(header_type)
        for wire, field in fields_of(header_type).items()
        if field.name == attribute
    }
    theirs = {
        (name, wire): (field.resource, field.separator)
        for name, fields in apache.fields.items()
        if name in OURS
        for wire, field in fields.items()
        if field.resource != "-"
    }
    assert {name: ours[name] for name in ours.keys() - NAMED_ONLY_HERE} == theirs
    assert ours.keys() >= NAMED_ONLY_HERE


def test_a_code_with_a_declared_permission_has_that_class_and_that_permission(apache: Java):
    assert len(apache.permissions) > 90
    for code, (name, declared) in apache.permissions.items():
        row = REQUESTS[code]
        assert row.header is OURS[name], f"{row.name} has another header class"
        expected = AUTHORIZED_BY_CODE.get(code) or NAMED_IN_THE_BODY.get(code) or declared
        assert row.permission == expected, f"{row.name} has another permission"


def test_the_same_request_codes(apache: Java):
    ours = {code: row.name for code, row in REQUESTS.items() if not row.name.startswith("DLEDGER_")}  # those are in DLedger's jar
    assert ours | DECLARED_ONLY | IN_THE_CONTROLLERS_LOG == apache.requests | ONLY_4_X_CODES
    assert not ours.keys() & (DECLARED_ONLY.keys() | IN_THE_CONTROLLERS_LOG.keys())


def test_the_same_response_codes(apache: Java):
    assert {code.value: code.name for code in ResponseCode} == apache.responses
