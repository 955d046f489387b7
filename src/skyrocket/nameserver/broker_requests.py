"""Requests of brokers (register, heartbeat, look up their group, leave), and of administrators that make a broker read-only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from skyrocket.nameserver.kv_requests import KvStore
from skyrocket.nameserver.kv_table import ORDER_NAMESPACE
from skyrocket.nameserver.route_table import BrokerKey, BrokerRegistration, RouteTable
from skyrocket.nameserver.settings import NameserverSettings
from skyrocket.net.connection import Connection
from skyrocket.net.router import RefusedError, Router
from skyrocket.protocol.bodies import DataVersion, GetBrokerMemberGroupResponseBody, KVTable
from skyrocket.protocol.broker_registration import decode_registration
from skyrocket.protocol.command import Command
from skyrocket.protocol.crc import crc32
from skyrocket.protocol.fastjson.codec import decode_request, encode
from skyrocket.protocol.headers import (
    AddWritePermOfBrokerRequestHeader,
    AddWritePermOfBrokerResponseHeader,
    BrokerHeartbeatRequestHeader,
    GetBrokerMemberGroupRequestHeader,
    QueryDataVersionRequestHeader,
    QueryDataVersionResponseHeader,
    RegisterBrokerRequestHeader,
    RegisterBrokerResponseHeader,
    UnRegisterBrokerRequestHeader,
    WipeWritePermOfBrokerRequestHeader,
    WipeWritePermOfBrokerResponseHeader,
)
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode

ZONE_FIELD: Final = "__ZONE_NAME"
_CRC_MASK: Final = 0x7FFF_FFFF  # Java's number has a sign, and Apache leaves it out


class BrokerRequests:
    def __init__(
        self, table: RouteTable, kv: KvStore, settings: Callable[[], NameserverSettings], now_ms: Callable[[], int]
    ) -> None:
        self._table = table
        self._kv = kv
        self._settings = settings
        self._now_ms = now_ms

    def register(self, router: Router) -> None:
        router.add(RequestCode.REGISTER_BROKER, self.register_broker)
        router.add(RequestCode.UNREGISTER_BROKER, self.unregister_broker)
        router.add(RequestCode.QUERY_DATA_VERSION, self.query_data_version)
        router.add(RequestCode.BROKER_HEARTBEAT, self.heartbeat)
        router.add(RequestCode.GET_BROKER_MEMBER_GROUP, self.member_group)
        router.add(RequestCode.WIPE_WRITE_PERM_OF_BROKER, self.forbid_writing)
        router.add(RequestCode.ADD_WRITE_PERM_OF_BROKER, self.allow_writing)

    def register_broker(self, request: Command, connection: Connection) -> Command:
        header = request.header(RegisterBrokerRequestHeader)
        if header.body_crc32 and header.body_crc32 != crc32(request.body) & _CRC_MASK:
            raise RefusedError(ResponseCode.SYSTEM_ERROR, "The CRC of the registration does not match its body.")
        registration = BrokerRegistration(
            cluster=header.cluster_name,
            name=header.broker_name,
            id=header.broker_id,
            address=header.broker_addr,
            ha_address=header.ha_server_addr,
            timeout_ms=header.heartbeat_timeout_millis,
            acting_master=header.enable_acting_master,
            zone=request.fields.get(ZONE_FIELD),
            connection=connection,
        )
        if request.body:
            body = decode_registration(request.body, compressed=header.compressed)
            registration = registration.with_topics(body.topic_config_serialize_wrapper)
        result = self._table.register(registration, self._now_ms(), forget_missing=self._settings().delete_topics)
        orders = self._kv.table.namespace(ORDER_NAMESPACE) if self._settings().return_order_config else None
        return request.response(
            ResponseCode.SUCCESS,
            RegisterBrokerResponseHeader(ha_server_addr=result.ha_server_addr, master_addr=result.master_addr),
            body=b"" if orders is None else encode(KVTable(table=orders)),
        )

    def unregister_broker(self, request: Command, _: Connection) -> Command:
        header = request.header(UnRegisterBrokerRequestHeader)
        self._table.unregister(BrokerKey(header.cluster_name, header.broker_addr), header.broker_name)
        return request.response(ResponseCode.SUCCESS)

    def query_data_version(self, request: Command, _: Connection) -> Command:
        """Compare data versions. This counts as a heartbeat: a broker sends it while its topics do not change."""
        header = request.header(QueryDataVersionRequestHeader)
        key = BrokerKey(header.cluster_name, header.broker_addr)
        theirs = decode_request(request.body, DataVersion) if request.body else None
        self._table.refresh(key, self._now_ms())
        ours = self._table.data_version(key)
        return request.response(
            ResponseCode.SUCCESS,
            QueryDataVersionResponseHeader(changed=self._table.is_changed(key, theirs)),
            body=b"" if ours is None else encode(ours),
        )

    def heartbeat(self, request: Command, _: Connection) -> Command:
        header = request.header(BrokerHeartbeatRequestHeader)
        self._table.refresh(BrokerKey(header.cluster_name, header.broker_addr), self._now_ms())
        return request.response(ResponseCode.SUCCESS)

    def member_group(self, request: Command, _: Connection) -> Command:
        header = request.header(GetBrokerMemberGroupRequestHeader)
        group = self._table.member_group(header.cluster_name, header.broker_name)
        return request.response(ResponseCode.SUCCESS, body=encode(GetBrokerMemberGroupResponseBody(broker_member_group=group)))

    def forbid_writing(self, request: Command, _: Connection) -> Command:
        header = request.header(WipeWritePermOfBrokerRequestHeader)
        count = self._table.topics.forbid_writing(header.broker_name)
        return request.response(ResponseCode.SUCCESS, WipeWritePermOfBrokerResponseHeader(wipe_topic_count=count))

    def allow_writing(self, request: Command, _: Connection) -> Command:
        header = request.header(AddWritePermOfBrokerRequestHeader)
        count = self._table.topics.allow_writing(header.broker_name)
        return request.response(ResponseCode.SUCCESS, AddWritePermOfBrokerResponseHeader(add_topic_count=count))
