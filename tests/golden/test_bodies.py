"""Bodies that Apache RocketMQ 5.5.0 wrote are decoded, and encoded again to the same bytes."""

from __future__ import annotations

import tarfile
from typing import Any

import msgspec
import pytest

from skyrocket.protocol import bodies as b
from skyrocket.protocol.broker_registration import decode_registration, encode_registration
from skyrocket.protocol.command import Command, CommandDecoder
from skyrocket.protocol.config_text import decode_config, encode_config
from skyrocket.protocol.fastjson.codec import Dialect, decode, encode, encode_pretty, route_dialect
from skyrocket.protocol.fastjson.reader import parse
from skyrocket.protocol.requests import REQUESTS, Raw
from tests.support.golden import GOLDEN, GoldenFrame, golden_frames

ROUTE_CODE = 105


def command_of(golden: GoldenFrame) -> Command:
    (command,) = CommandDecoder().feed(golden.frame)
    assert isinstance(command, Command)
    return command


def body_kind(golden: GoldenFrame) -> Any:
    row = REQUESTS[golden.request_code]
    return row.response_body if golden.kind == "response" else row.body


def frames_with(*, json: bool) -> list[Any]:
    """Return frames whose body is JSON, or settings lines, by their code."""
    chosen = []
    for index, golden in enumerate(golden_frames()):
        wanted = not isinstance(body_kind(golden), Raw) if json else body_kind(golden) is Raw.PROPERTIES_TEXT
        if wanted and command_of(golden).body:
            chosen.append(pytest.param(golden, id=f"{golden.name}-{index}"))
    return chosen


def written_dialect(golden: GoldenFrame, command: Command) -> Dialect:
    return route_dialect(command.version, None) if golden.request_code == ROUTE_CODE else Dialect.FASTJSON


def test_golden_frames_contain_bodies():
    assert len(frames_with(json=True)) == 58
    assert len(frames_with(json=False)) == 2
    looks_like_json = [g for g in golden_frames() if command_of(g).body[:1] in (b"{", b"[")]
    assert len(looks_like_json) == 58, "a JSON body that the code table does not know"


@pytest.mark.parametrize("golden", frames_with(json=True))
def test_a_json_body_is_written_as_java_wrote_it(golden: GoldenFrame):
    command = command_of(golden)
    body = decode(command.body, body_kind(golden))
    assert encode(body, written_dialect(golden, command)) == command.body


@pytest.mark.parametrize("golden", frames_with(json=True))
def test_json_body_loses_no_field(golden: GoldenFrame):
    """Compares keys and values as plain data, without our types."""
    command = command_of(golden)
    body = decode(command.body, body_kind(golden))
    assert parse(encode(body).decode()) == parse(command.body.decode())


@pytest.mark.parametrize("golden", frames_with(json=True))
def test_both_json_dialects_decode_to_the_same_value(golden: GoldenFrame):
    body = decode(command_of(golden).body, body_kind(golden))
    strict = encode(body, Dialect.STRICT)
    msgspec.json.decode(strict)  # it is JSON to a reader that knows no dialect
    assert decode(strict, body_kind(golden)) == body
    assert decode(encode(body, Dialect.FASTJSON), body_kind(golden)) == body


@pytest.mark.parametrize("golden", frames_with(json=False))
def test_settings_are_written_as_java_wrote_them(golden: GoldenFrame):
    text = command_of(golden).body
    settings = decode_config(text)
    assert len(settings) == len(text.splitlines()) > 10
    assert encode_config(settings) == text


def test_a_real_registration_survives_packing():
    registrations = [command_of(golden) for golden in golden_frames() if golden.request_code == 103 and golden.kind == "request"]
    assert len(registrations) == 4
    for command in registrations:
        body = decode_registration(command.body, compressed=False)
        packed = encode_registration(body, compressed=True)
        again = decode_registration(packed, compressed=True)
        wrapper, before = again.topic_config_serialize_wrapper, body.topic_config_serialize_wrapper
        assert wrapper.topic_config_table == before.topic_config_table
        assert wrapper.data_version == before.data_version
        assert len(packed) < len(command.body) / 4


CONFIG_FILES: list[tuple[str, type[b.Body], bool]] = [  # name, content, laid out with tabs
    ("topics.json", b.TopicConfigSerializeWrapper, True),
    ("subscriptionGroup.json", b.SubscriptionGroupWrapper, True),
    ("consumerOffset.json", b.ConsumerOffsetManager, True),
    ("delayOffset.json", b.DelayOffsetSerializeWrapper, True),
    ("timermetrics", b.TimerMetricsSerializeWrapper, False),
    ("transactionMetrics", b.TransactionMetricsSerializeWrapper, False),
]


@pytest.mark.parametrize(("name", "content", "pretty"), CONFIG_FILES)
def test_a_brokers_files_are_written_as_java_wrote_them(name: str, content: type[b.Body], pretty: bool):
    with tarfile.open(GOLDEN / "store.tar.xz") as store:
        member = store.extractfile(f"./config/{name}")
        assert member is not None
        text = member.read()
    body = decode(text, content)
    assert (encode_pretty(body) if pretty else encode(body)) == text
