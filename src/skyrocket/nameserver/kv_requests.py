"""Keys and values: the table in memory and on disk, and its requests."""

from __future__ import annotations

import asyncio
from pathlib import Path

from skyrocket.durable_file import read_file, replace_file
from skyrocket.nameserver.errors import KvFileError
from skyrocket.nameserver.kv_table import KvTable, decode_kv_table
from skyrocket.nameserver.limits import KV_FILE_BYTES_MAX
from skyrocket.net.connection import Connection
from skyrocket.net.router import RefusedError, Router
from skyrocket.protocol.bodies import KVTable
from skyrocket.protocol.command import Command
from skyrocket.protocol.errors import ProtocolError
from skyrocket.protocol.fastjson.codec import encode
from skyrocket.protocol.headers import (
    DeleteKVConfigRequestHeader,
    GetKVConfigRequestHeader,
    GetKVConfigResponseHeader,
    GetKVListByNamespaceRequestHeader,
    PutKVConfigRequestHeader,
)
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode


class KvStore:
    """The current table. A change is visible, and acknowledged, once it is on disk."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._changing = asyncio.Lock()
        self.table = KvTable()

    def load(self) -> None:
        try:
            content = read_file(self._path, KV_FILE_BYTES_MAX)
            if content is not None and len(content) > KV_FILE_BYTES_MAX:
                raise KvFileError(f"{self._path} is larger than {KV_FILE_BYTES_MAX} bytes.")
            if content is not None:
                self.table = decode_kv_table(content)
        except OSError as error:
            raise KvFileError(f"{self._path} cannot be read: {error.strerror}.") from error
        except ProtocolError as error:
            previous = self._path.with_name(f"{self._path.name}.bak")
            hint = f" Apache's nameserver saved the previous content in {previous}." if previous.exists() else ""
            raise KvFileError(f"{self._path} is damaged: {error}{hint}") from error

    async def put(self, namespace: str, key: str, value: str) -> None:
        async with self._changing:
            await self._save(self.table.with_value(namespace, key, value))

    async def delete(self, namespace: str, key: str) -> None:
        async with self._changing:
            await self._save(self.table.without(namespace, key))

    async def _save(self, table: KvTable) -> None:
        """Write the table in a thread: route requests must not wait for a slow disk."""
        await asyncio.to_thread(replace_file, self._path, table.encode())
        self.table = table


class KvRequests:
    def __init__(self, kv: KvStore) -> None:
        self._kv = kv

    def register(self, router: Router) -> None:
        router.add(RequestCode.PUT_KV_CONFIG, self.put)
        router.add(RequestCode.GET_KV_CONFIG, self.get)
        router.add(RequestCode.DELETE_KV_CONFIG, self.delete)
        router.add(RequestCode.GET_KVLIST_BY_NAMESPACE, self.list_namespace)

    async def put(self, request: Command, _: Connection) -> Command:
        header = request.header(PutKVConfigRequestHeader)
        try:
            await self._kv.put(header.namespace, header.key, header.value)
        except OSError as error:
            raise _save_failed(error) from error
        return request.response(ResponseCode.SUCCESS)

    async def delete(self, request: Command, _: Connection) -> Command:
        header = request.header(DeleteKVConfigRequestHeader)
        try:
            await self._kv.delete(header.namespace, header.key)
        except OSError as error:
            raise _save_failed(error) from error
        return request.response(ResponseCode.SUCCESS)

    def get(self, request: Command, _: Connection) -> Command:
        header = request.header(GetKVConfigRequestHeader)
        value = self._kv.table.get(header.namespace, header.key)
        if value is None:
            remark = f"Namespace {header.namespace[:255]} has no key {header.key[:255]}."
            raise RefusedError(ResponseCode.QUERY_NOT_FOUND, remark)
        return request.response(ResponseCode.SUCCESS, GetKVConfigResponseHeader(value=value))

    def list_namespace(self, request: Command, _: Connection) -> Command:
        header = request.header(GetKVListByNamespaceRequestHeader)
        pairs = self._kv.table.namespace(header.namespace)
        if pairs is None:
            raise RefusedError(ResponseCode.QUERY_NOT_FOUND, f"There is no namespace {header.namespace[:255]}.")
        return request.response(ResponseCode.SUCCESS, body=encode(KVTable(table=pairs)))


def _save_failed(error: OSError) -> RefusedError:
    return RefusedError(ResponseCode.SYSTEM_ERROR, f"The change could not be saved and was not applied: {error.strerror}.")
