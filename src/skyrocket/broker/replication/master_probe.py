"""Questions to a master over its ordinary port, which Apache's broker answers, too.

| question                        | request                      | answer                                         |
|---------------------------------|------------------------------|------------------------------------------------|
| where does your log start, end? | GET_BROKER_RUNTIME_INFO (28) | commitLogMinOffset, commitLogMaxOffset         |
| which record lies at …?         | VIEW_MESSAGE_BY_ID (33)      | the record's bytes, as they stand in the log   |

Apache's HA protocol has no words for either. So a slave asks here before it dials the HA port.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from skyrocket.broker.errors import ReplicationError
from skyrocket.net.dialer import Dialer
from skyrocket.net.errors import NetError
from skyrocket.protocol.bodies import KVTable
from skyrocket.protocol.command import Command
from skyrocket.protocol.errors import ProtocolError
from skyrocket.protocol.fastjson.codec import decode
from skyrocket.protocol.headers import ViewMessageRequestHeader
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode

ASK_MS: Final = 3_000
HA_EXTENSION: Final = "haExtension"  # a row of our runtime information that Apache's does not have


class MasterInfo(NamedTuple):
    """What a master says of its log."""

    start: int
    end: int
    is_ours: bool

    @property
    def is_empty(self) -> bool:
        return self.start >= self.end


class MasterProbe:
    def __init__(self, dialer: Dialer, address: str) -> None:
        self._dialer = dialer
        self.address = address

    async def info(self) -> MasterInfo:
        """Ask where the master's log starts and ends. Raise ReplicationError when it does not say."""
        response = await self._ask(Command(RequestCode.GET_BROKER_RUNTIME_INFO))
        if response.code != ResponseCode.SUCCESS:
            raise ReplicationError(f"Master {self.address} does not tell where its log starts: {response.remark}")
        try:
            table = decode(response.body, KVTable).table or {}
            start, end = int(table["commitLogMinOffset"]), int(table["commitLogMaxOffset"])
        except (ProtocolError, KeyError, ValueError) as error:
            raise ReplicationError(f"Master {self.address} does not tell where its log starts: {error!r}.") from error
        return MasterInfo(max(start, 0), max(end, 0), HA_EXTENSION in table)

    async def has_records(self, records: Sequence[tuple[int, bytes]]) -> list[bool]:
        """Return for each offset and record whether the master's log has the same bytes there."""
        return [await self._record_at(offset) == record for offset, record in records]

    async def _record_at(self, offset: int) -> bytes:
        header = ViewMessageRequestHeader(offset=offset)
        response = await self._ask(Command(RequestCode.VIEW_MESSAGE_BY_ID, fields=header.to_fields()))
        return bytes(response.body) if response.code == ResponseCode.SUCCESS else b""

    async def _ask(self, command: Command) -> Command:
        try:
            return await self._dialer.request(self.address, command, ASK_MS)
        except NetError as error:
            raise ReplicationError(f"Master {self.address} does not answer: {error}") from error
