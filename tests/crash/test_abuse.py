"""Clients that break the protocol, send wrong lengths or too much, or never read, against a running `skyrocket run`.

The server answers with an error or closes the connection. During every test a well-behaved client sends and fetches messages.
Memory stays bounded, nothing is written outside the data directory, and no handler fails unexpectedly.
"""

from __future__ import annotations

import json
import random
import re
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import inspect

from skyrocket.protocol.bodies import Body
from skyrocket.protocol.command import ONEWAY_FLAG, Command, encode_command
from skyrocket.protocol.fastjson.codec import encode
from skyrocket.protocol.frame import Serialization, join_frame
from skyrocket.protocol.header import Header
from skyrocket.protocol.requests import TO_BROKER, TO_NAMESERVER, RequestCode
from skyrocket.protocol.responses import ResponseCode
from tests.support.body_values import any_body
from tests.support.processes.load import Ended, GoodClient, Wire, pull_request, resident_bytes, send_request
from tests.support.processes.skyrocket_process import Skyrocket

GROWTH_BYTES_MAX = 768 * 1024 * 1024  # generous: the largest body stays below it, and what has no bound passes it at once
MIB = 1024 * 1024
ABUSED = "AbusedTopic"
ANSWERED_S_MAX = 20.0


class Peak(threading.Thread):
    """Measures the peak memory of a process while it runs."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._pid = pid
        self._stopping = threading.Event()
        self.resident = resident_bytes(pid)

    def run(self) -> None:
        while not self._stopping.wait(0.01):
            with suppress(OSError):
                self.resident = max(self.resident, resident_bytes(self._pid))

    def stop(self) -> int:
        self._stopping.set()
        self.join()
        return self.resident


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Skyrocket]:
    with Skyrocket(tmp_path_factory.mktemp("abused")) as running:
        with Wire(running.address) as wire:
            for topic in ("GoodTopic", ABUSED):
                assert wire.ask(send_request(topic, b"first")).code == ResponseCode.SUCCESS
        yield running
        running.stop()


@pytest.fixture
def server(process: Skyrocket) -> Iterator[Skyrocket]:
    """The server process. Checks the invariants after every test."""
    assert process.process is not None
    before = resident_bytes(process.process.pid)
    complained = len(process.complaints())
    good = GoodClient(process.address, "GoodTopic")
    peak = Peak(process.process.pid)
    good.start()
    peak.start()
    yield process
    good.stop()
    grown = peak.stop() - before
    assert process.process.poll() is None, f"it ended:\n{process.log_tail()}"
    assert grown < GROWTH_BYTES_MAX, f"its memory grew by {grown / MIB:.0f} MiB"
    assert process.complaints()[complained:] == [], process.log_tail(80)
    assert sorted(path.name for path in process.home.iterdir()) == ["data", "run.log"], "something was written beside the data"


def ports(server: Skyrocket) -> tuple[str, str]:
    return server.address, server.nameserver


def json_frame(header: bytes, body: bytes = b"") -> bytes:
    return join_frame(Serialization.JSON, header, body)


def frame(length: int, mark: int, rest: bytes = b"") -> bytes:
    """A frame that starts with these lengths."""
    return struct.pack(">iI", length, mark) + rest


def binary_header(fields: bytes, code: int = 10, remark_bytes: int = 0, fields_bytes: int | None = None) -> bytes:
    length = len(fields) if fields_bytes is None else fields_bytes
    return struct.pack(">hbhiii", code, 0, 0, 1, 0, remark_bytes) + struct.pack(">i", length) + fields


TLS_HELLO = bytes.fromhex("16030100c8010000c40303") + bytes(range(190))

MALFORMED = {
    "negative length": frame(-1, 0),
    "most negative length": frame(-(2**31), 0),
    "length zero": frame(0, 0),
    "length too small": frame(3, 0),
    "length of two gigabytes": frame(2**31 - 1, 0),
    "length just too large": frame(16 * MIB + 1, 0),
    "header longer than its frame": frame(100, 0x00FFFFFF, b"x" * 96),
    "header of two megabytes": frame(3 * MIB, 2 * MIB),
    "unknown serialization": frame(100, 0x07000010, b"x" * 96),
    "no header": frame(4, 0),
    "header that is no JSON": json_frame(b"hello"),
    "header that is an array": json_frame(b"[1,2,3]"),
    "header that is a number": json_frame(b"7"),
    "header without a code": json_frame(b"{}"),
    "code that is no number": json_frame(b'{"code":"x"}'),
    "code that is too large": json_frame(b'{"code":99999999999999999999}'),
    "header not in UTF-8": json_frame(b'{"code":10,"remark":"\xff\xfe"}'),
    "fields that are a list": json_frame(b'{"code":10,"extFields":[1]}'),
    "fields within fields": json_frame(b'{"code":10,"extFields":{"a":{"b":{}}}}'),
    "deeply nested": json_frame(b'{"code":10,"extFields":' + b'{"a":' * 100_000 + b"}"),
    "deeply nested arrays": json_frame(b"[" * 500_000),
    "binary header too short": join_frame(1, b"\0\1\2"),
    "binary remark too long": join_frame(1, binary_header(b"", remark_bytes=2**31 - 1)),
    "binary remark negative": join_frame(1, binary_header(b"", remark_bytes=-5)),
    "binary fields too long": join_frame(1, binary_header(b"", fields_bytes=2**31 - 1)),
    "binary fields negative": join_frame(1, binary_header(b"", fields_bytes=-1)),
    "binary name too long": join_frame(1, binary_header(b"\x7f\xff")),
    "binary name negative": join_frame(1, binary_header(b"\xff\xffab\0\0\0\0")),
    "binary value negative": join_frame(1, binary_header(b"\0\1a\xff\xff\xff\xff")),
    "HTTP": b"GET / HTTP/1.1\r\nHost: localhost\r\nUser-Agent: curl\r\n\r\n",
    "TLS where there is none": TLS_HELLO,
    "nothing but zeros": bytes(100_000),
    "nothing but ones": b"\xff" * 100_000,
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_frame_closes_the_connection(server: Skyrocket, name: str) -> None:
    for address in ports(server):
        with Wire(address) as wire:
            with suppress(Ended):
                wire.tell(MALFORMED[name])
            assert wire.is_closed_within(ANSWERED_S_MAX), f"{address} keeps the connection"


def test_random_bytes_close_the_connection_or_wait_for_more(server: Skyrocket) -> None:
    chance = random.Random(5)
    for number in range(200):
        with Wire(ports(server)[number % 2]) as wire, suppress(Ended):
            wire.tell(chance.randbytes(chance.choice([1, 7, 8, 9, 100, 5000])))
            wire.tell(chance.randbytes(100))


def test_a_sound_request_before_a_malformed_one_is_answered(server: Skyrocket) -> None:
    for address in ports(server):
        with Wire(address) as wire:
            wire.tell(encode_command(Command(9999, opaque=77)) + frame(-1, 0))
            assert (wire.answer().opaque, wire.is_closed_within(ANSWERED_S_MAX)) == (77, True)


def test_headers_with_ten_thousand_fields_are_read(server: Skyrocket) -> None:
    fields = {f"field{number}": "x" * 50 for number in range(10_000)}
    for address in ports(server):
        for serialization in Serialization:
            with Wire(address) as wire:
                answer = wire.ask(Command(RequestCode.SEND_MESSAGE_V2, fields=dict(fields), serialization=serialization))
                assert answer.code != ResponseCode.SUCCESS


def test_unfinished_frames_cost_only_the_bytes_that_were_sent(server: Skyrocket) -> None:
    sent = 15 * MIB
    with ExitStack() as wires:
        for number in range(10):
            wire = wires.enter_context(Wire(ports(server)[number % 2]))
            wire.tell(frame(16 * MIB - 4, 100) + bytes(sent))
        time.sleep(0.5)


def test_five_hundred_slow_connections_are_closed_and_do_not_slow_others(server: Skyrocket) -> None:
    """Each sends single bytes of its first frame. After ten seconds without a whole frame the server closes it."""
    request = encode_command(Command(RequestCode.GET_BROKER_CLUSTER_INFO, opaque=1))
    with ExitStack() as wires:
        slow = [wires.enter_context(Wire(ports(server)[number % 2])) for number in range(500)]
        open_ones = list(slow)
        deadline = time.monotonic() + 40
        for byte in request:
            for wire in list(open_ones):
                try:
                    wire.tell(bytes([byte]))
                except Ended:
                    open_ones.remove(wire)
            if not open_ones or time.monotonic() > deadline:
                break
            time.sleep(0.25)
        assert not open_ones, f"{len(open_ones)} of 500 slow connections are still open"


# --- names


LONG = "x" * (MIB - 4096)
NAMES = {
    "parent": "..",
    "path up": "../../../../tmp/escaped",
    "absolute path": "/tmp/escaped",
    "inside": "a/b",
    "backslash": "..\\..\\escaped",
    "NUL": "a\0b",
    "newline": "a\nb=c\r\n",
    "unicode": "主题-é-😀",
    "lone surrogate": "a\ud800b",
    "percent": "%s%n%d{0}${HOME}`id`",
    "quotes": '";}{]["',
    "empty": "",
    "blanks": "   ",
    "dot": ".",
    "tilde": "~",
    "just too long": "x" * 256,
    "a megabyte": LONG,
    "sound": ABUSED,
}
NUMBERS = (0, -1, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63))


# What a request needs to get past its first checks, where only the names in it are to be hostile.
PLAIN = {"topicFilterType": "SINGLE_TAG", "expressionType": "TAG", "subscription": "*", "c": "TBW102", "defaultTopic": "TBW102"}


def hostile_fields(header: type[Header], text: str, number: int, *, only_names: bool = False) -> dict[str, str]:
    """Fill every field of a header with the text or the number, as its type allows."""
    fields = {}
    kind = inspect.type_info(header)
    assert isinstance(kind, inspect.StructType)
    for field in kind.fields:
        given = field.type.types if isinstance(field.type, inspect.UnionType) else (field.type,)
        types = [each.type if isinstance(each, inspect.Metadata) else each for each in given]
        is_name = any(isinstance(each, inspect.Metadata) for each in given)  # of a topic, a group or the like
        name = field.encode_name
        if any(isinstance(each, inspect.StrType) for each in types):
            if is_name or not only_names:
                fields[name] = text
            elif name in PLAIN or field.required:
                fields[name] = PLAIN.get(name, "x")
        elif any(isinstance(each, inspect.BoolType) for each in types):
            fields[name] = "true" if number > 0 else "false"
        else:
            least = next((each.ge for each in types if isinstance(each, inspect.IntType) and each.ge is not None), number)
            most = next((each.le for each in types if isinstance(each, inspect.IntType) and each.le is not None), number)
            fields[name] = str(max(least, min(number, most)))
    return fields


def codes_of(server: Skyrocket, address: str) -> list[RequestCode]:
    direction = TO_BROKER if address == server.address else TO_NAMESERVER
    return [code for code in RequestCode if code.request.direction & direction]


class Attacker:
    """Sends one request after another, and reconnects when the server has closed the connection."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._wire = Wire(address, ANSWERED_S_MAX)
        self.answers: dict[int, int] = {}  # by response code
        self.closed = 0

    def ask(self, request: bytes, what: str) -> None:
        try:
            self._wire.tell(request)
            answer = self._wire.answer()
            self.answers[answer.code] = self.answers.get(answer.code, 0) + 1
        except Ended:
            self.closed += 1
            self._wire.socket.close()
            self._wire = Wire(self._address, ANSWERED_S_MAX)
        except TimeoutError:
            pytest.fail(f"{what} was neither answered nor its connection closed")

    def close(self) -> None:
        self._wire.socket.close()


def raw_json(code: int, fields: dict[str, str], body: bytes = b"") -> bytes:
    """A frame with text that our encoder would refuse."""
    text = msgspec.json.encode({"code": code, "extFields": {}, "flag": 0, "language": "JAVA", "opaque": 1, "version": 495})
    inner = ",".join(f"{quoted(name)}:{quoted(value)}" for name, value in fields.items()).encode()
    return json_frame(text.replace(b"{}", b"{" + inner + b"}"), body)


def quoted(text: str) -> str:
    """Quote text as JSON, with every character outside ASCII escaped, including lone surrogates."""
    return json.dumps(text)


@pytest.mark.parametrize("name", NAMES)
def test_hostile_names_and_numbers_in_every_request_are_refused_or_harmless(server: Skyrocket, name: str) -> None:
    text = NAMES[name]
    numbers = NUMBERS if len(text) < 1000 else (0,)
    for address in ports(server):
        attacker = Attacker(address)
        for code in codes_of(server, address):
            header = code.request.header
            for number in numbers if header is not None else (0,):
                body = hostile_body(code, text, number)
                for only_names in (True, False):
                    fields = {} if header is None else hostile_fields(header, text, number, only_names=only_names)
                    attacker.ask(raw_json(code, fields, body), f"{code.name} with {name}, {number}")
        attacker.close()
    topics = {path.name for path in (server.data / "store" / "consumequeue").iterdir()}
    assert all(re.fullmatch(r"[%|a-zA-Z0-9_-]{1,127}", topic) for topic in topics), topics


def hostile_body(code: RequestCode, text: str, number: int) -> bytes:
    """A body of the right kind, with the text and the number in every field."""
    kind = code.request.body
    if not (isinstance(kind, type) and issubclass(kind, Body)) or len(text) > 1000 or "\ud800" in text:
        return b""
    return encode(filled(inspect.type_info(kind), text, number))


def filled(kind: inspect.Type, text: str, number: int) -> Any:
    if isinstance(kind, inspect.UnionType):
        return filled(next(each for each in kind.types if not isinstance(each, inspect.NoneType)), text, number)
    if isinstance(kind, inspect.StructType):
        return kind.cls(**{field.name: filled(field.type, text, number) for field in kind.fields})
    if isinstance(kind, inspect.ListType):
        return [filled(kind.item_type, text, number)]
    if isinstance(kind, inspect.DictType):
        return {filled(kind.key_type, text, number): filled(kind.value_type, text, number)}
    if isinstance(kind, inspect.IntType):
        return max(kind.ge or number, min(number, kind.le or number))
    if isinstance(kind, inspect.StrType):
        return text
    return any_of(kind, number)


def any_of(kind: inspect.Type, number: int) -> Any:
    if isinstance(kind, inspect.BoolType):
        return number > 0
    if isinstance(kind, inspect.FloatType):
        return float(number)
    if isinstance(kind, inspect.EnumType):
        return next(iter(kind.cls))
    if isinstance(kind, inspect.BytesType):
        return b"\xff" * 8
    if isinstance(kind, inspect.VarTupleType):
        return ()
    assert isinstance(kind, inspect.CustomType), kind
    return kind.cls(ABUSED, "broker-a", max(-(2**31), min(number, 2**31 - 1)))


# --- bodies


def sound_fields(code: RequestCode) -> dict[str, str]:
    return {} if code.request.header is None else hostile_fields(code.request.header, ABUSED, 0, only_names=True)


WRONG_BODIES: dict[str, Callable[[], bytes]] = {
    "a NUL": lambda: b"\0",
    "random": lambda: random.Random(1).randbytes(3000),
    "an empty object": lambda: b"{}",
    "an empty list": lambda: b"[]",
    "null": lambda: b"null",
    "a number": lambda: b"1e400",
    "a text": lambda: b'"text"',
    "not UTF-8": lambda: b'{"a":"\xff"}',
    "a list of objects": lambda: b'[{"topicName":1},{"topicName":null},[],{}]',
    "an unfinished object": lambda: b'{"topicConfigTable":{"a":',
    "references to itself": lambda: b'{"a":{"$ref":"$"},"b":{"$ref":".."},"table":{"$ref":"@"}}',
    "classes by name": lambda: b'{"@type":"java.lang.Runtime","a":{"@type":"com.sun.rowset.JdbcRowSetImpl"}}',
    "deeply nested": lambda: b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
    "deeply nested lists": lambda: b"[" * 1_000_000,
    "lies about lengths": lambda: struct.pack(">iiii", 2**31 - 1, -1, 2**31 - 1, -(2**31)) * 8,
    "compressed forever": lambda: b"\x78\x9c" + b"\xff" * 100,
}


@pytest.mark.parametrize("name", WRONG_BODIES)
def test_bodies_of_a_wrong_kind_are_refused_or_ignored_in_every_request(server: Skyrocket, name: str) -> None:
    body = WRONG_BODIES[name]()
    for address in ports(server):
        attacker = Attacker(address)
        for code in codes_of(server, address):
            fields = sound_fields(code)
            attacker.ask(raw_json(code, fields, body), f"{code.name} with {name}")
        attacker.close()


def test_extreme_values_of_the_right_kind_do_not_crash_any_request(server: Skyrocket) -> None:
    chance = random.Random(11)
    for address in ports(server):
        attacker = Attacker(address)
        for code in codes_of(server, address):
            kind = code.request.body
            if isinstance(kind, type) and issubclass(kind, Body):
                fields = sound_fields(code)
                for _ in range(10):
                    attacker.ask(raw_json(code, fields, encode(any_body(kind, chance))), code.name)
        attacker.close()


GIANT_BODIES: dict[str, Callable[[], bytes]] = {
    "objects": lambda: b"[" + b'{"topicName":"x"},' * 700_000 + b"{}]",
    "one text": lambda: b'"' + b"x" * (12 * MIB) + b'"',
    "many names": lambda: b"{" + b",".join(b'"n%d":%d' % (number, number) for number in range(800_000)) + b"}",
    "many bare names": lambda: b"{" + b",".join(b"%d:{}" % number for number in range(1_000_000)) + b"}",
    "references": lambda: b'{"a":[' + b",".join([b'{"$ref":"$.a"}'] * 800_000) + b"]}",
    "blanks": lambda: b" " * (12 * MIB) + b"{}",
    "key=value lines": lambda: b"".join(b"key%d=value\n" % number for number in range(900_000)),
}


GIANT_CODES = (  # one for each way of reading a body
    RequestCode.HEART_BEAT,
    RequestCode.SEND_BATCH_MESSAGE,
    RequestCode.UPDATE_BROKER_CONFIG,
    RequestCode.REGISTER_BROKER,
    RequestCode.UPDATE_NAMESRV_CONFIG,
)


@pytest.mark.parametrize("name", GIANT_BODIES)
def test_giant_bodies_do_not_block_other_requests(server: Skyrocket, name: str) -> None:
    body = GIANT_BODIES[name]()
    for address in ports(server):
        attacker = Attacker(address)
        for code in codes_of(server, address):
            if code in GIANT_CODES:
                fields = sound_fields(code)
                attacker.ask(raw_json(code, fields, body), f"{code.name} with a giant body of {name}")
        attacker.close()


# --- settings


def hostile_settings(outside: Path) -> list[dict[str, str]]:
    return [
        {"rocketmqHome": f"{outside} && touch {outside}"},
        {"filterServerNums": "1", "rocketmqHome": f"-c $@|sh . echo touch {outside};"},
        {"storePathRootDir": str(outside)},
        {"storePathCommitLog": str(outside)},
        {"configStorePath": str(outside), "productEnvName": "x\\nroot"},
        {"configStorePathName": "configStorePath", "configStorePath": str(outside)},
        {"kvConfigPath": str(outside)},
        {"namesrvAddr": "6.6.6.6:9876"},
        {"brokerIP1": "6.6.6.6"},
        {"bindAddress": "0.0.0.0"},
        {"listenPort": "1"},
        {"brokerName": "../../x"},
        {"brokerClusterName": "x"},
        {"messageStorePlugIn": "java.lang.Runtime"},
        {"tlsServerKeyPath": str(outside)},
        {"flushDiskType": "NEVER"},
        {"maxMessageSize": "-1"},
        {"maxMessageSize": "99999999999999999999"},
        {"fileReservedTime": "0"},
        {"deleteWhen": "99"},
        {"brokerPermission": "255"},
        {"maxTransferBytesOnMessageInMemory": "2147483648"},
        {"maxTransferCountOnMessageInMemory": "-5"},
        {"__class__": "x", "_settings": "y", "store_path": str(outside)},
        {"": "x"},
        {"x" * 100_000: "y" * 100_000},
    ]


@pytest.mark.parametrize("code", [RequestCode.UPDATE_BROKER_CONFIG, RequestCode.UPDATE_NAMESRV_CONFIG])
def test_hostile_settings_are_refused_and_change_nothing(server: Skyrocket, code: RequestCode, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    is_broker = code is RequestCode.UPDATE_BROKER_CONFIG
    get = RequestCode.GET_BROKER_CONFIG if is_broker else RequestCode.GET_NAMESRV_CONFIG
    with Wire(server.address if is_broker else server.nameserver) as wire:
        before = wire.ask(Command(get)).body
        for settings in hostile_settings(outside):
            text = "".join(f"{key}={value}\n" for key, value in settings.items())
            answer = wire.ask(Command(code, body=text.encode()))
            assert answer.code != ResponseCode.SUCCESS, f"{settings} was accepted"
        assert wire.ask(Command(get)).body == before
    assert list(tmp_path.iterdir()) == []


# --- too much


def test_flood_of_oneway_requests_gets_no_responses_and_does_not_slow_others(server: Skyrocket) -> None:
    unknown = encode_command(Command(9999, flag=ONEWAY_FLAG)) * 1000
    send = send_request(ABUSED, b"x" * 100)
    send.flag |= ONEWAY_FLAG
    sends = encode_command(send) * 1000
    for address in ports(server):
        with Wire(address) as wire:
            for flood in (unknown, sends):
                for _ in range(20):
                    wire.tell(flood)
            answer = wire.ask(Command(9999))
            assert answer.opaque == 1, "a oneway request was answered"


def test_client_that_never_reads_does_not_fill_the_memory(server: Skyrocket) -> None:
    """The client pulls large messages many times at once, over several connections."""
    with Wire(server.address) as wire:
        for _ in range(4):
            assert wire.ask(send_request("LargeTopic", bytes(4 * MIB - 1000))).code == ResponseCode.SUCCESS
    pulls = encode_command(pull_request("LargeTopic", 0)) * 500
    with ExitStack() as wires:
        for _ in range(4):
            wire = wires.enter_context(Wire(server.address, 0.5))
            with suppress(Ended, TimeoutError):
                for _ in range(10):
                    wire.tell(pulls)
        time.sleep(1)


def test_pulls_that_wait_for_a_large_message_do_not_fill_the_memory_when_it_comes(server: Skyrocket) -> None:
    with Wire(server.address) as good, ExitStack() as wires:
        assert good.ask(send_request("AwaitedTopic", b"first")).code == ResponseCode.SUCCESS
        for _ in range(3):
            wire = wires.enter_context(Wire(server.address))
            for number in range(500):
                wire.tell(encode_command(pull_request("AwaitedTopic", 1, opaque=number, hold_ms=30_000)))
        time.sleep(0.5)
        assert good.ask(send_request("AwaitedTopic", bytes(4 * MIB - 1000))).code == ResponseCode.SUCCESS
        time.sleep(1)
