"""Commands round-trip in both serializations, and a malformed command raises an error."""

from __future__ import annotations

import struct

import pytest

from skyrocket.protocol.command import Command, CommandDecoder, MalformedCommandError, encode_command
from skyrocket.protocol.errors import FrameError, HeaderError
from skyrocket.protocol.frame import Serialization, join_frame
from skyrocket.protocol.header import Header, Int32
from skyrocket.protocol.language import Language

BOTH = pytest.mark.parametrize("serialization", list(Serialization))


class Greeting(Header, kw_only=True):
    """A small typed header."""

    name: str
    times: Int32 = 1


def through(command: Command) -> Command:
    (decoded,) = CommandDecoder().feed(encode_command(command))
    return decoded


@BOTH
def test_a_command_round_trips_in_both_serializations(serialization: Serialization):
    command = Command(
        310,
        opaque=-7,
        flag=2,
        fields={"a": "grüße 🚀", "empty": "", "separators": "\x01\x02"},
        body=b"\x00body",
        remark="why",
        language=Language.GO,
        version=401,
        serialization=serialization,
    )
    assert through(command) == command
    assert through(command).is_oneway


@BOTH
def test_a_response_answers_its_request_in_its_own_serialization(serialization: Serialization):
    request = through(Command(11, opaque=42, serialization=serialization))
    response = through(request.response(0, Greeting(name="x"), body=b"ok", remark="fine"))
    assert (response.opaque, response.serialization, response.is_response) == (42, serialization, True)
    assert response.header(Greeting) == Greeting(name="x", times=1)
    assert (response.body, response.remark) == (b"ok", "fine")


def json_command(header: str, body: bytes = b"") -> Command:
    (command,) = CommandDecoder().feed(join_frame(Serialization.JSON, header.encode(), body))
    return command


def test_numbers_and_booleans_in_ext_fields_read_as_their_text():
    command = json_command('{"code":1,"extFields":{"name":5,"times":3,"on":true,"none":null}}')
    assert command.header(Greeting) == Greeting(name="5", times=3)
    assert command.fields == {"name": "5", "times": "3", "on": "true"}


@pytest.mark.parametrize("fields", ["", ',"extFields":null', ',"extFields":{}'])
def test_a_header_without_fields_has_an_empty_dict(fields: str):
    command = json_command(f'{{"code":1{fields}}}')
    assert command.fields == {}
    with pytest.raises(HeaderError, match="Greeting: field 'name' is required, and missing"):
        command.header(Greeting)


def test_unknown_keys_and_languages_are_ignored():
    command = json_command('{"code":1,"language":"COBOL","suspended":false,"new":[1,{"x":2}]}')
    assert command.language is Language.OTHER


@BOTH
def test_a_wrong_value_names_its_header_and_field(serialization: Serialization):
    command = through(Command(1, fields={"name": "x", "times": "many"}, serialization=serialization))
    with pytest.raises(HeaderError, match="Greeting: field 'times' must be int, not 'many'") as caught:
        command.header(Greeting)
    assert (caught.value.header, caught.value.field) == ("Greeting", "times")


@BOTH
def test_a_number_past_32_bits_names_its_field(serialization: Serialization):
    command = through(Command(1, fields={"name": "x", "times": "2147483648"}, serialization=serialization))
    with pytest.raises(HeaderError, match="field 'times' must be int <= 2147483647"):
        command.header(Greeting)


@pytest.mark.parametrize(
    "header",
    [
        "",
        "{",
        "[]",
        "null",
        "{}",
        '{"code":"x"}',
        '{"code":4294967296}',
        '{"code":1,"opaque":99999999999999999999}',
        '{"code":1,"remark":5}',
        '{"code":1,"language":7}',
        '{"code":1,"extFields":{"a":"\ud800"}}'.encode("utf-8", "surrogatepass").decode("latin-1"),
        '{"x":' + "[" * 100_000,
    ],
    ids=lambda header: header[:30] or "empty",
)
def test_a_malformed_json_header_is_a_frame_error(header: str):
    frame = join_frame(Serialization.JSON, header.encode("latin-1"))
    with pytest.raises(FrameError, match=r"header|extFields"):
        _ = CommandDecoder().feed(frame)[0].fields


def binary_header(**changes: object) -> bytes:
    values = {"remark": 2, "fields": 13, "name": 4, "value": 3, **changes}
    fields = struct.pack(">h", values["name"]) + b"name" + struct.pack(">i", values["value"]) + b"Bob"
    return struct.pack(">hbhiii", 1, 0, 0, 0, 0, values["remark"]) + b"hi" + struct.pack(">i", values["fields"]) + fields


def test_the_binary_header_of_the_next_test_is_valid():
    (command,) = CommandDecoder().feed(join_frame(Serialization.ROCKETMQ, binary_header()))
    assert (command.remark, command.fields) == ("hi", {"name": "Bob"})


@pytest.mark.parametrize("field", ["remark", "fields", "name", "value"])
@pytest.mark.parametrize("value", [-1, -32768, 1, 12, 14, 200, 32767])
def test_a_wrong_length_in_a_binary_header_is_a_frame_error(field: str, value: int):
    with pytest.raises(FrameError, match="A binary header"):
        CommandDecoder().feed(join_frame(Serialization.ROCKETMQ, binary_header(**{field: value})))


def test_a_binary_header_cut_anywhere_is_a_frame_error():
    whole = binary_header()
    for length in range(len(whole)):
        with pytest.raises(FrameError, match="A binary header"):
            CommandDecoder().feed(join_frame(Serialization.ROCKETMQ, whole[:length]))


def test_text_that_is_not_utf8_is_a_frame_error():
    with pytest.raises(FrameError, match="not UTF-8"):
        CommandDecoder().feed(join_frame(Serialization.ROCKETMQ, binary_header().replace(b"Bob", b"\xff\xfe\xfd")))


def test_a_code_above_32767_has_no_binary_header():
    with pytest.raises(FrameError, match="Command 200050 does not fit in a binary header"):
        encode_command(Command(200_050, serialization=Serialization.ROCKETMQ))


@BOTH
def test_text_that_is_not_unicode_is_refused_when_written(serialization: Serialization):
    with pytest.raises(FrameError, match="not Unicode"):
        encode_command(Command(1, fields={"a": "\ud800"}, serialization=serialization))


def test_commands_before_a_malformed_one_are_not_lost_and_the_stream_stays_broken():
    decoder = CommandDecoder()
    good = encode_command(Command(1))
    with pytest.raises(MalformedCommandError) as caught:
        decoder.feed(good + join_frame(Serialization.JSON, b"{") + good)
    assert caught.value.commands == [Command(1)]
    with pytest.raises(MalformedCommandError):
        decoder.feed(good)


def test_repr_of_a_command_is_one_line():
    assert repr(Command(11, fields={"topic": "t"}, body=b"xyz")) == (
        "Command(request code=11 opaque=0 remark=None fields={'topic': 't'} body=3 bytes)"
    )
