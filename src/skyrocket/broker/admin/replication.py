"""Replication: its state (907), and the consumption modes of groups (402), which Apache's slaves copy.

There is no POP consumption here, so no group has a mode of its own.
"""

from __future__ import annotations

from skyrocket.broker.context import BrokerContext
from skyrocket.net.connection import Connection
from skyrocket.net.router import Router
from skyrocket.protocol.bodies import MessageRequestModeSerializeWrapper
from skyrocket.protocol.command import Command
from skyrocket.protocol.fastjson.codec import encode
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode


class ReplicationHandlers:
    def __init__(self, context: BrokerContext) -> None:
        self._settings = context.settings
        self._status = context.ha_status

    def register(self, router: Router) -> None:
        router.add(RequestCode.GET_BROKER_HA_STATUS, self.status)
        router.add(RequestCode.GET_ALL_MESSAGE_REQUEST_MODE, self.request_modes)

    def status(self, command: Command, _connection: Connection) -> Command:
        body = self._status.show(is_slave=self._settings().role.is_slave)
        return command.response(ResponseCode.SUCCESS, body=encode(body))

    def request_modes(self, command: Command, _connection: Connection) -> Command:
        return command.response(ResponseCode.SUCCESS, body=encode(MessageRequestModeSerializeWrapper()))
