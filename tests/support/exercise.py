"""Everything that the protocol can make of a command: typed header, typed body, and both written again."""

from __future__ import annotations

from skyrocket.protocol.command import Command, encode_command
from skyrocket.protocol.payload import read_body
from skyrocket.protocol.requests import REQUESTS


def exercise(command: Command, asked: int) -> None:
    """`asked` is the request's code; a response does not carry it."""
    request = REQUESTS.get(asked if command.is_response else command.code)
    _ = command.fields
    encode_command(command)
    if request is None:
        return
    header_type = request.response_header if command.is_response else request.header
    if header_type is not None:
        command.header(header_type).to_fields()
    read_body(command, request)
