"""Apache RocketMQ reads what we write, we read what it writes, and both write the same text. One run of Java for all of it."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import msgspec
import pytest

from skyrocket.protocol import bodies as b
from skyrocket.protocol.broker_registration import decode_registration, encode_registration
from skyrocket.protocol.config_text import decode_config, encode_config
from skyrocket.protocol.errors import BodyError
from skyrocket.protocol.fastjson.codec import Dialect, decode, encode, encode_pretty
from skyrocket.protocol.fastjson.reader import parse
from tests.support.apache.packages import run_java
from tests.support.body_values import TEXTS, any_body, body_types, without_order

pytestmark = pytest.mark.interop

JAVA = Path(__file__).parent / "java" / "BodyRoundTrip.java"
EXAMPLES = 12  # of each body type

JAVA_BODIES = [each for each in body_types() if each is not b.ConsumerOffsetManager]
"""That one is a manager of Apache's broker with much else in it: tests/golden reads its file."""


MADE_WITH_ARGUMENTS = {
    b.BatchAck,
    b.BrokerSyncInfo,
    b.ClientGroup,
    b.EpochEntry,
    b.EpochEntryCache,
    b.MessageQueueForC,
    b.ProducerInfo,
    b.ProducerTableInfo,
    b.ReplicaIdentity,
    b.ReplicasInfo,
    b.RoleChangeNotifyEntry,
    b.SimpleSubscriptionData,
    b.SyncStateSet,
    b.TopicQueueMappingOne,
}
"""Classes whose objects cannot be made without values: in Java, or (BatchAck) here."""


class Question(NamedTuple):
    verb: str
    name: str
    given: bytes


def ask_java(questions: list[Question]) -> list[bytes | str]:
    """Bytes that Java made, or the text of its error."""
    lines = [f"{verb}\t{name}\t{base64.b64encode(given).decode()}\n" for verb, name, given in questions]
    answers = run_java(JAVA, stdin="".join(lines).encode()).decode().splitlines()
    assert len(answers) == len(questions)
    made = [(sign, base64.b64decode(text)) for sign, text in (answer.split(" ") for answer in answers)]
    return [data if sign == "=" else data.decode() for sign, data in made]


def examples(body_type: type[b.Body]) -> list[Any]:
    random = Random(body_type.__name__)
    made = [any_body(body_type, random) for _ in range(EXAMPLES)]
    return [_as_java_keeps(body) for body in made]


def _as_java_keeps(body: Any) -> Any:
    """Three texts of a QueueTimeSpan are computed by Java from its times whatever was sent."""
    for span in body.consume_time_span_set if isinstance(body, b.QueryConsumeTimeSpanBody) else [body]:
        if isinstance(span, b.QueueTimeSpan):
            span.min_time_stamp_str = span.max_time_stamp_str = span.consume_time_stamp_str = None
    return body


ROUTES = [any_body(b.TopicRouteData, Random(seed)) for seed in range(40)]
REGISTRATIONS = [any_body(b.RegisterBrokerBody, Random(seed)) for seed in range(20)]
WITH_PULL_OFFSETS = encode(b.ConsumerOffsetManager(offset_table={"t@g": {0: 1}}, pull_offset_table={"t@g": {0: 1}}))
SETTINGS_ALPHABET = [*"  \t\f\r\n\n\\\\\\==::#!abu", "\\u00e9", "\\u4e2d", "name=value\n", "\\\n"]


def random_settings(seed: int) -> bytes:
    random = Random(seed)
    text = "".join(random.choice(SETTINGS_ALPHABET) for _ in range(random.randrange(40)))
    return f"{text}\n\nlast=1\n".encode()  # of a lone backslash at the end Java makes a setting with an empty name; we do not


SETTINGS = [random_settings(seed) for seed in range(400)]
WRITTEN_SETTINGS = {f"{index}-{text}": text for index, text in enumerate(TEXTS) if text.isascii() and "\x00" not in text}


@pytest.fixture(scope="module")
def java() -> dict[Question, bytes | str]:
    questions: list[Question] = []
    for body_type in JAVA_BODIES:
        name = body_type.__name__
        questions += [Question("blank", name, b""), Question("filled", name, b"")]
        for body in examples(body_type):
            questions += [Question(verb, name, encode(body)) for verb in ("again", "older", "pretty")]
    questions.append(Question("again", "ConsumerOffsetSerializeWrapper", WITH_PULL_OFFSETS))
    questions += [Question("strict", "", encode(route)) for route in ROUTES]
    for registration in REGISTRATIONS:
        questions.append(Question("pack", "", encode(_packable(registration))))
        for version in ("V4_9_4", "V5_5_0"):
            questions.append(Question("unpack", version, encode_registration(_packable(registration), compressed=True)))
    questions += [Question("load", "", text) for text in SETTINGS]
    questions.append(Question("load", "", encode_config(WRITTEN_SETTINGS)))
    questions.append(Question("store", "", json.dumps({"b": "2", "a": "1 = x: y"}).encode()))
    return dict(zip(questions, ask_java(questions), strict=True))


def made(java: dict[Question, bytes | str], verb: str, name: str, given: bytes) -> bytes:
    answer = java[Question(verb, name, given)]
    assert isinstance(answer, bytes), f"Java, asked to {verb} {name}, says {answer} to {given.decode(errors='replace')}"
    return answer


@pytest.mark.parametrize("body_type", JAVA_BODIES, ids=lambda each: each.__name__)
def test_java_reads_what_we_write_and_writes_it_as_we_do(java: dict[Question, bytes | str], body_type: type[b.Body]):
    for body in examples(body_type):
        text = made(java, "again", body_type.__name__, encode(body))
        again = decode(text, body_type)
        assert encode(again) == text
        assert without_order(_as_java_keeps(again)) == without_order(body)


WITHOUT_BITS = [each for each in JAVA_BODIES if each not in (b.BatchAck, b.BatchAckMessageRequestBody)]
"""5.5's class tells only the newer library how to write a set of bits."""


@pytest.mark.parametrize("body_type", WITHOUT_BITS, ids=lambda each: each.__name__)
def test_the_older_library_writes_what_we_read_as_the_same(java: dict[Question, bytes | str], body_type: type[b.Body]):
    for body in examples(body_type):
        older = made(java, "older", body_type.__name__, encode(body))
        assert without_order(_as_java_keeps(decode(older, body_type))) == without_order(body)


@pytest.mark.parametrize("body_type", JAVA_BODIES, ids=lambda each: each.__name__)
def test_java_lays_out_files_as_we_do(java: dict[Question, bytes | str], body_type: type[b.Body]):
    for body in examples(body_type):
        pretty = made(java, "pretty", body_type.__name__, encode(body))
        without_blanks = re.sub(rb"\[\s+\]", b"[]", pretty)  # Java puts them into an empty list or not, as the field is declared
        assert encode_pretty(decode(pretty, body_type)) == without_blanks


@pytest.mark.parametrize("body_type", JAVA_BODIES, ids=lambda each: each.__name__)
def test_our_fields_are_those_that_java_writes(java: dict[Question, bytes | str], body_type: type[b.Body]):
    written = set(json.loads(_strict(made(java, "filled", body_type.__name__, b""))))
    ours = {field.encode_name for field in msgspec.structs.fields(body_type)}
    assert ours == written


@pytest.mark.parametrize("body_type", [each for each in JAVA_BODIES if each not in MADE_WITH_ARGUMENTS], ids=lambda e: e.__name__)
def test_our_defaults_are_those_of_a_new_java_object(java: dict[Question, bytes | str], body_type: type[b.Body]):
    text = re.sub(rb'"(timestamp|timeStamp|subVersion)":[0-9]+', rb'"\1":0', made(java, "blank", body_type.__name__, b""))
    assert _as_java_keeps(decode(text, body_type)) == body_type()


def test_java_still_cannot_read_the_offsets_that_javas_master_sends(java: dict[Question, bytes | str]):
    """Why a slave of Apache's gets the short form from us. When this fails, Apache has repaired it."""
    assert "unquoted name" in str(java[Question("again", "ConsumerOffsetSerializeWrapper", WITH_PULL_OFFSETS)])


@pytest.mark.parametrize("route", range(len(ROUTES)))
def test_strict_routes_are_written_as_javas_nameserver_does(java: dict[Question, bytes | str], route: int):
    body = ROUTES[route]
    assert encode(body, Dialect.STRICT) == made(java, "strict", "", encode(body))


@pytest.mark.parametrize("index", range(len(REGISTRATIONS)))
def test_a_packed_registration_reads_the_same_on_both_sides(java: dict[Question, bytes | str], index: int):
    body = _packable(REGISTRATIONS[index])
    packed = encode_registration(body, compressed=True)
    new = decode(made(java, "unpack", "V5_5_0", packed), b.RegisterBrokerBody)
    old = decode(made(java, "unpack", "V4_9_4", packed), b.RegisterBrokerBody)
    assert _travels(new) == _travels(body)
    assert _travels(old) == (*_travels(body)[:3], {})


@pytest.mark.parametrize("index", range(len(REGISTRATIONS)))
def test_java_packs_what_we_unpack(java: dict[Question, bytes | str], index: int):
    body = _packable(REGISTRATIONS[index])
    packed = made(java, "pack", "", encode(body))
    assert _travels(decode_registration(packed, compressed=True)) == _travels(body)


@pytest.mark.parametrize("text", SETTINGS, ids=range(len(SETTINGS)))
def test_settings_are_read_as_java_reads_them(java: dict[Question, bytes | str], text: bytes):
    answer = java[Question("load", "", text)]
    if isinstance(answer, str):
        with pytest.raises(BodyError):
            decode_config(text)
    else:
        assert decode_config(text) == json.loads(answer)


def test_settings_that_we_write_are_read_by_java_as_they_were(java: dict[Question, bytes | str]):
    assert json.loads(made(java, "load", "", encode_config(WRITTEN_SETTINGS))) == WRITTEN_SETTINGS


def test_plain_settings_are_written_as_java_writes_them(java: dict[Question, bytes | str]):
    given = {"b": "2", "a": "1 = x: y"}
    assert made(java, "store", "", json.dumps(given).encode()) == encode_config(dict(sorted(given.items())))


def _strict(text: bytes) -> bytes:
    """Java's text with its keys in quotes."""
    return msgspec.json.encode(parse(text.decode()))


def _packable(body: b.RegisterBrokerBody) -> b.RegisterBrokerBody:
    """The packed form separates by spaces, and takes each topic's and mapping's name from itself."""
    wrapper = body.topic_config_serialize_wrapper
    topics = {}
    for index, config in enumerate(wrapper.topic_config_table.values()):
        attributes = {key: text for key, text in config.attributes.items() if " " not in key + text}
        changed = msgspec.structs.replace(
            config, topic_name=f"topic-{index}", attributes=attributes, order=False, topic_sys_flag=0
        )
        topics[changed.topic_name] = changed
    mappings = {}
    for index, mapping in enumerate(wrapper.topic_queue_mapping_info_map.values()):
        mappings[f"topic-{index}"] = msgspec.structs.replace(mapping, topic=f"topic-{index}")
    changed_wrapper = msgspec.structs.replace(wrapper, topic_config_table=topics, topic_queue_mapping_info_map=mappings)
    return b.RegisterBrokerBody(topic_config_serialize_wrapper=changed_wrapper, filter_server_list=body.filter_server_list)


def _travels(body: b.RegisterBrokerBody) -> tuple[Any, ...]:
    """What the packed form has."""
    wrapper = body.topic_config_serialize_wrapper
    return (
        wrapper.data_version,
        wrapper.topic_config_table,
        body.filter_server_list,
        wrapper.topic_queue_mapping_info_map,
    )
