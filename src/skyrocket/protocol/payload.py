"""Decode a command's body to the type that the table of requests gives for its code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from skyrocket.protocol.bodies.dledger import LedgerCode, PushEntryRequest, PushEntryResponse
from skyrocket.protocol.broker_registration import decode_registration
from skyrocket.protocol.command import Command
from skyrocket.protocol.config_text import decode_config
from skyrocket.protocol.errors import BodyError
from skyrocket.protocol.fastjson.codec import decode
from skyrocket.protocol.headers import RegisterBrokerRequestHeader
from skyrocket.protocol.ledger_push import decode_push, decode_push_response
from skyrocket.protocol.message.batch import decode_batch
from skyrocket.protocol.message.record import decode_record, iterate_records
from skyrocket.protocol.requests import Raw, RequestCode, RequestSpec
from skyrocket.protocol.responses import ResponseCode


def _text(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise BodyError(f"A text body is not UTF-8: {error}.") from error


_RAW_READERS: Final[dict[Raw, Callable[[bytes], object]]] = {
    Raw.NONE: bytes,
    Raw.MESSAGE: bytes,
    Raw.BINARY: bytes,
    Raw.BATCH: decode_batch,
    Raw.RECORD: decode_record,
    Raw.RECORDS: lambda body: list(iterate_records(body)),
    Raw.PROPERTIES_TEXT: decode_config,
    Raw.JSON_TEXT: _text,
    Raw.TEXT: _text,
}


def read_body(command: Command, request: RequestSpec) -> object:
    """Decode the body of a request, or of a response to it. Return None if it is empty or belongs to a failed response."""
    success = (
        LedgerCode.SUCCESS
        if RequestCode.DLEDGER_METADATA <= request.code <= RequestCode.DLEDGER_LEADERSHIP_TRANSFER
        else ResponseCode.SUCCESS
    )
    if not command.body or (command.is_response and command.code != success):
        return None
    if request.code is RequestCode.REGISTER_BROKER and not command.is_response:
        return decode_registration(command.body, compressed=bool(command.header(RegisterBrokerRequestHeader).compressed))
    kind = request.response_body if command.is_response else request.body
    if isinstance(kind, Raw):
        return _RAW_READERS[kind](command.body)
    if kind is PushEntryRequest:
        return decode_push(command.body)
    if kind is PushEntryResponse:
        return decode_push_response(command.body)
    return decode(command.body, kind)
