"""Message queries: by key, unique key or tag within a time range (12), and by physical offset (33).

    12   index → candidates, newest first → those that carry the key → the newest `maxNum` of them, oldest first
    33   the record at the physical offset that an offset id contains

The index stores hashes. Each record is compared with the requested key, so a hash collision costs a read and is never returned.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final

from skyrocket.broker.admin.cold_answers import read_cold, step_cold
from skyrocket.broker.context import BrokerContext
from skyrocket.net.connection import Connection
from skyrocket.net.router import RefusedError, Router
from skyrocket.protocol.command import Command
from skyrocket.protocol.headers import QueryMessageRequestHeader, QueryMessageResponseHeader, ViewMessageRequestHeader
from skyrocket.protocol.limits import FRAME_BYTES_MAX
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from skyrocket.store.cold_reads import RepeatedReads
from skyrocket.store.message import TAG_MARK
from skyrocket.store.read.message_query import MessageQuery

BY_TAG: Final = "T"  # the index type of tags; keys and unique keys ("K", "U") share one index here
ANSWER_BYTES_MAX: Final = FRAME_BYTES_MAX - 1024 * 1024  # of messages in one response: clients refuse larger frames
_NOTHING = QueryMessageResponseHeader(index_last_update_timestamp=0, index_last_update_phyoffset=0)


class MessageQueryHandlers:
    def __init__(self, context: BrokerContext) -> None:
        self._store = context.store
        self._settings = context.settings
        self._turns = asyncio.Lock()
        self._reads = RepeatedReads(context.store.reads)

    def register(self, router: Router) -> None:
        router.add(RequestCode.QUERY_MESSAGE, self.query)
        router.add(RequestCode.VIEW_MESSAGE_BY_ID, self.view)

    async def query(self, command: Command, _connection: Connection) -> Command:
        header = command.header(QueryMessageRequestHeader)
        settings = self._settings()
        asked_for = settings.query_default_max if header.unique_key_query else header.max_num
        count = max(0, min(asked_for, settings.query_max))
        key = TAG_MARK + header.key if header.index_type == BY_TAG else header.key
        query = self._store.reading.begin_query(header.topic, key, header.begin_timestamp, header.end_timestamp, count)
        while not await self._take_turn(query):
            pass
        found = query.found
        if not found:
            remark = f"No message of '{header.topic[:160]}' has the key '{header.key[:160]}' in this time."
            return command.response(ResponseCode.QUERY_NOT_FOUND, _NOTHING, remark=remark)
        index = self._store.index
        assert index is not None, "there is an index where something was found by it"
        answer = QueryMessageResponseHeader(
            index_last_update_timestamp=index.last_timestamp, index_last_update_phyoffset=index.last_offset
        )
        return command.response(ResponseCode.SUCCESS, answer, body=_oldest_first(found))

    async def _take_turn(self, query: MessageQuery) -> bool:
        """Carry out one step of a query; return whether it is done. In one turn of the loop, one query takes one step."""
        async with self._turns:
            is_done = await step_cold(self._store.reads, query)
            if not is_done:
                await asyncio.sleep(0)
        return is_done

    async def view(self, command: Command, _connection: Connection) -> Command:
        offset = command.header(ViewMessageRequestHeader).offset
        message = await read_cold(self._reads, ("view", offset), partial(self._store.reading.view_at, offset))
        if message is None:
            raise RefusedError(ResponseCode.SYSTEM_ERROR, f"There is no message at {offset} in the log.")
        return command.response(ResponseCode.SUCCESS, body=bytes(message))


def _oldest_first(newest_first: list[memoryview]) -> bytes:
    """Join as many of the newest messages as one response may contain, oldest first."""
    taken: list[memoryview] = []
    size_bytes = 0
    for message in newest_first:
        size_bytes += len(message)
        if taken and size_bytes > ANSWER_BYTES_MAX:
            break
        taken.append(message)
    return b"".join(reversed(taken))
