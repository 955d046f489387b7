"""`skyrocket protocol …`: list the requests of the wire protocol, and decode captured frames."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import msgspec
import typer

from skyrocket.protocol.command import Command, CommandDecoder
from skyrocket.protocol.errors import ProtocolError
from skyrocket.protocol.payload import read_body
from skyrocket.protocol.requests import REQUESTS, BodyKind, Raw
from skyrocket.protocol.responses import response_name

app = typer.Typer(no_args_is_help=True)


@app.command()
def codes(as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False) -> None:
    """List all requests: code, name, headers and bodies."""
    for code, row in sorted(REQUESTS.items()):
        shown = {
            "code": code,
            "name": row.name,
            "header": row.header.__name__ if row.header else None,
            "responseHeader": row.response_header.__name__ if row.response_header else None,
            "body": _kind_name(row.body),
            "responseBody": _kind_name(row.response_body),
        }
        if as_json:
            typer.echo(json.dumps(shown))
        else:
            typer.echo(f"{code:>6}  {row.name:<42} {shown['header'] or '-'} + {shown['body']} → {shown['responseBody']}")


@app.command()
def decode(
    frame: Annotated[str, typer.Argument(help="The frame in hexadecimal, its length field included; - reads standard input.")],
    request_code: Annotated[
        int | None, typer.Option("--asked", help="For a response: the code of the request that it answers.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per frame.")] = False,
) -> None:
    """Decode captured frames: the command, its fields, and its body by type."""
    text = sys.stdin.read() if frame == "-" else frame
    try:
        data = bytes.fromhex("".join(text.split()))
    except ValueError:
        shown = "".join(text.split())[:32]
        typer.echo(f"'{shown}' is not hexadecimal. Give the frame's bytes as two hexadecimal digits each.", err=True)
        raise typer.Exit(2) from None
    decoder = CommandDecoder()
    try:
        commands = decoder.feed(data)
        for command in commands:
            typer.echo(_as_json(command, request_code) if as_json else "\n".join(_describe(command, request_code)))
    except ProtocolError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None
    if decoder.pending_bytes:
        typer.echo(
            f"{decoder.pending_bytes} bytes are left over: the last frame is not whole. Append its remaining bytes.", err=True
        )
        raise typer.Exit(1)


def _describe(command: Command, request_code: int | None) -> list[str]:
    request = REQUESTS.get(command.code)
    if command.is_response:
        title = f"response {command.code} {response_name(command.code)}"
        request = REQUESTS.get(request_code) if request_code is not None else None
    else:
        title = f"{'oneway' if command.is_oneway else 'request'} {command.code} {request.name if request else '(unknown)'}"
    sender = f"{command.language.name}, version {command.version}"
    lines = [f"{title}, opaque {command.opaque}, {sender}, {command.serialization.name} header"]
    if command.remark:
        lines.append(f"  remark: {command.remark}")
    lines += [f"  {name}: {value!r}" for name, value in command.fields.items()]
    if command.body:
        body = read_body(command, request) if request else command.body
        lines.append(f"  body, {len(command.body)} bytes: {_format_body(body)}")
    return lines


def _as_json(command: Command, request_code: int | None) -> str:
    code = request_code if command.is_response else command.code
    request = REQUESTS.get(code) if code is not None else None
    name = response_name(command.code) if command.is_response else request.name if request else None
    kind = "response" if command.is_response else "oneway" if command.is_oneway else "request"
    body = _format_body(read_body(command, request) if request else command.body) if command.body else None
    shown = {"kind": kind, "code": command.code, "name": name, "opaque": command.opaque, "language": command.language.name}
    shown |= {"version": command.version, "serialization": command.serialization.name, "remark": command.remark}
    return json.dumps({**shown, "fields": dict(command.fields), "bodyLength": len(command.body), "body": body})


def _format_body(body: object) -> str:
    if isinstance(body, bytes):
        return repr(body[:200])
    if isinstance(body, list):
        return "".join(f"\n    {item}" for item in body)
    if isinstance(body, msgspec.Struct):
        return repr(body)
    return str(body)


def _kind_name(kind: BodyKind) -> str:
    if isinstance(kind, Raw):
        return "-" if kind is Raw.NONE else kind.value
    return getattr(kind, "__name__", str(kind))
