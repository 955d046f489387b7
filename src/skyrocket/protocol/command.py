"""Commands: the content of a frame. A command is a request, a response or a oneway request, with named fields and a body.

The binary header ("ROCKETMQ"); integers are big-endian, text is UTF-8:

     0      2      3         5        9      13     17             17+R       21+R
     +------+------+---------+--------+------+------+--------------+----------+----------------------------+
     | code | lang | version | opaque | flag | R    | remark, R B  | E        | fields, E bytes            |
     +------+------+---------+--------+------+------+--------------+----------+----------------------------+
      i16    i8     i16       i32      i32    i32                   i32        each: i16 length, name,
                                                                                     i32 length, value

The JSON header has the same content, under the names that `_encode_json` writes. Its `extFields` has the named fields, as
strings.
"""

from __future__ import annotations

import struct
from typing import Any, Final, TypeVar

import msgspec

from skyrocket.protocol import versions
from skyrocket.protocol.errors import FrameError
from skyrocket.protocol.frame import Frame, FrameSplitter, MalformedFrameError, Serialization, join_frame
from skyrocket.protocol.header import Header, Int32, header_from_fields
from skyrocket.protocol.language import LANGUAGES, Language

RESPONSE_FLAG: Final = 1
ONEWAY_FLAG: Final = 2

_FIXED = struct.Struct(">hbhiii")  # code, language, version, opaque, flag, length of the remark
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")

H = TypeVar("H", bound=Header)


class _JsonHeader(msgspec.Struct, gc=False):
    code: Int32
    fields: dict[str, str] | None = msgspec.field(name="extFields", default=None)
    flag: Int32 = 0
    language: str = "OTHER"
    opaque: Int32 = 0
    remark: str | None = None
    version: Int32 = 0


class _LooseJsonHeader(_JsonHeader, gc=False):
    """A JSON header whose fields may be numbers and booleans. Java writes strings only, but reads these as their text."""

    fields: dict[str, str | int | float | bool | None] | None = msgspec.field(  # type: ignore[assignment]
        name="extFields", default=None
    )


_json_header = msgspec.json.Decoder(_JsonHeader, strict=False)
_loose_json_header = msgspec.json.Decoder(_LooseJsonHeader, strict=False)
_json = msgspec.json.Encoder()
_new = object.__new__


class Command:
    """One command. `fields` has the named fields of its header as strings; `header(T)` returns them typed and checked."""

    __slots__ = ("body", "code", "fields", "flag", "language", "opaque", "remark", "serialization", "version")

    def __init__(
        self,
        code: int,
        *,
        opaque: int = 0,
        flag: int = 0,
        fields: dict[str, str] | None = None,
        body: bytes = b"",
        remark: str | None = None,
        language: Language = Language.PYTHON,
        version: int = versions.CURRENT,
        serialization: Serialization = Serialization.JSON,
    ) -> None:
        self.code = code
        self.opaque = opaque
        self.flag = flag
        self.body = body
        self.remark = remark
        self.language = language
        self.version = version
        self.serialization = serialization
        self.fields = {} if fields is None else fields

    @property
    def is_response(self) -> bool:
        return bool(self.flag & RESPONSE_FLAG)

    @property
    def is_oneway(self) -> bool:
        return bool(self.flag & ONEWAY_FLAG)

    def header(self, header_type: type[H]) -> H:
        """Return the fields as a `header_type`.

        Raise HeaderError, which names the field, if one is missing or has a wrong type.
        """
        return header_from_fields(header_type, self.fields)

    def response(self, code: int, header: Header | None = None, *, body: bytes = b"", remark: str | None = None) -> Command:
        """Return a response to this request, with its opaque and its serialization."""
        return Command(
            code,
            opaque=self.opaque,
            flag=RESPONSE_FLAG,
            fields=header.to_fields() if header is not None else None,
            body=body,
            remark=remark,
            serialization=self.serialization,
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Command):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in _COMPARED)

    __hash__ = None  # type: ignore[assignment]  # a command is mutable

    def __repr__(self) -> str:
        kind = "response" if self.is_response else "oneway" if self.is_oneway else "request"
        return (
            f"Command({kind} code={self.code} opaque={self.opaque} remark={self.remark!r} "
            f"fields={self.fields} body={len(self.body)} bytes)"
        )


_COMPARED = ("code", "opaque", "flag", "language", "version", "remark", "fields", "body", "serialization")


class CommandDecoder:
    """Decodes a byte stream into commands.

    A malformed command raises MalformedCommandError, whose `commands` are the commands before it in the same piece. After that
    the stream cannot be read any further, and every later `feed` raises the error again.
    """

    def __init__(self, splitter: FrameSplitter | None = None) -> None:
        self._splitter = splitter or FrameSplitter()
        self._broken: str | None = None

    @property
    def pending_bytes(self) -> int:
        return len(self._splitter.pending)

    def feed(self, data: bytes | bytearray | memoryview) -> list[Command]:
        """Add bytes from the stream, and return the commands that are complete now."""
        if self._broken is not None:
            raise MalformedCommandError(self._broken, [])
        commands: list[Command] = []
        try:
            frames, error = self._splitter.feed(data), None
        except MalformedFrameError as malformed:
            frames, error = malformed.frames, malformed
        try:
            for frame in frames:
                commands.append(decode_command(frame))
            if error is not None:
                raise error
        except FrameError as malformed:
            self._broken = str(malformed)
            raise MalformedCommandError(self._broken, commands) from malformed
        return commands


class MalformedCommandError(FrameError):
    """The stream has a malformed command. `commands` are the valid commands before it."""

    def __init__(self, sentence: str, commands: list[Command]) -> None:
        super().__init__(sentence)
        self.commands = commands


def decode_command(frame: Frame) -> Command:
    """Decode the command in a frame. Raise FrameError if its header is malformed."""
    return _decode_binary(frame) if frame.serialization else _decode_json(frame)


def encode_command(command: Command) -> bytes:
    """Return the command as the bytes of one frame, in the command's serialization."""
    return join_frame(command.serialization, encode_header(command), command.body)


def encode_header(command: Command) -> bytes:
    """Return the header of a command's frame, in the command's serialization."""
    return _encode_json(command) if command.serialization is Serialization.JSON else _encode_binary(command)


def _decode_json(frame: Frame) -> Command:
    try:
        header = _json_header.decode(frame.header)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        header = _decode_loose_json(frame.header)
    command = _new(Command)  # a client decodes every response here; the constructor would double the time
    command.code = header.code
    command.opaque = header.opaque
    command.flag = header.flag
    command.fields = {} if header.fields is None else header.fields
    command.body = frame.body
    command.remark = header.remark
    command.language = LANGUAGES.get(header.language, Language.OTHER)
    command.version = header.version
    command.serialization = Serialization.JSON
    return command


def _decode_loose_json(data: bytes) -> _JsonHeader:
    try:
        header = _loose_json_header.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FrameError(f"A JSON header cannot be read: {error}.") from error
    if header.fields is not None:
        header.fields = {name: _as_text(value) for name, value in header.fields.items() if value is not None}
    return header


def _as_text(value: str | float | bool) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _encode_json(command: Command) -> bytes:
    """Write the names in fastjson's order, which is alphabetical, as Apache does."""
    header: dict[str, Any] = {"code": command.code}
    if command.fields:
        header["extFields"] = command.fields
    header["flag"] = command.flag
    header["language"] = command.language.name
    header["opaque"] = command.opaque
    if command.remark is not None:
        header["remark"] = command.remark
    header["serializeTypeCurrentRPC"] = "JSON"
    header["version"] = command.version
    try:
        return _json.encode(header)
    except UnicodeEncodeError as error:
        raise FrameError(f"A header has text that is not Unicode: {error}.") from error


def _decode_binary(frame: Frame) -> Command:
    header = frame.header
    if len(header) < _FIXED.size + _INT32.size:
        raise FrameError(f"A binary header of {len(header)} bytes is shorter than its {_FIXED.size + _INT32.size} fixed bytes.")
    code, language, version, opaque, flag, remark_bytes = _FIXED.unpack_from(header)
    fields_at = _FIXED.size + remark_bytes
    if remark_bytes < 0 or fields_at + _INT32.size > len(header):
        raise FrameError(f"A binary header's remark of {remark_bytes} bytes does not fit in its {len(header)} bytes.")
    (fields_bytes,) = _INT32.unpack_from(header, fields_at)
    if fields_at + _INT32.size + fields_bytes != len(header):
        raise FrameError(f"A binary header's fields of {fields_bytes} bytes do not end where the header does.")
    try:
        remark = header[_FIXED.size : fields_at].decode() if remark_bytes else None
        fields = _decode_binary_fields(header, fields_at + _INT32.size)
    except UnicodeDecodeError as error:
        raise FrameError(f"A binary header has text that is not UTF-8: {error}.") from error
    return Command(
        code,
        opaque=opaque,
        flag=flag,
        fields=fields,
        body=frame.body,
        remark=remark,
        language=Language(language),
        version=version,
        serialization=Serialization.ROCKETMQ,
    )


def _decode_binary_fields(header: bytes, at: int) -> dict[str, str]:
    fields: dict[str, str] = {}
    end = len(header)
    while at < end:
        name_at = at + _INT16.size
        name_end = name_at + (_INT16.unpack_from(header, at)[0] if name_at <= end else end)
        value_at = name_end + _INT32.size
        if not name_at <= name_end or value_at > end:
            raise FrameError(f"A binary header's field name at byte {at} does not fit in the header.")
        at = value_at + _INT32.unpack_from(header, name_end)[0]
        if not value_at <= at <= end:
            raise FrameError(f"A binary header's field value at byte {value_at} does not fit in the header.")
        fields[header[name_at:name_end].decode()] = header[value_at:at].decode()
    return fields


def _encode_binary(command: Command) -> bytes:
    """Encode a binary header.

    Codes above 32,767 (the POP family) do not fit and raise FrameError: send those in JSON, as Apache does.
    """
    try:
        remark = command.remark.encode() if command.remark else b""
        parts = [b"", remark, b""]
        for name, value in command.fields.items():
            name_bytes, value_bytes = name.encode(), value.encode()
            parts += (_INT16.pack(len(name_bytes)), name_bytes, _INT32.pack(len(value_bytes)), value_bytes)
        parts[0] = _FIXED.pack(command.code, command.language, command.version, command.opaque, command.flag, len(remark))
        parts[2] = _INT32.pack(sum(map(len, parts[3:])))
    except struct.error as error:
        raise FrameError(f"Command {command.code} does not fit in a binary header: {error}.") from error
    except UnicodeEncodeError as error:
        raise FrameError(f"A header has text that is not Unicode: {error}.") from error
    return b"".join(parts)
