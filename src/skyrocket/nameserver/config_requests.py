"""Requests that read and change the nameserver's settings."""

from __future__ import annotations

from skyrocket.nameserver.settings import NameserverSettings
from skyrocket.net.connection import Connection
from skyrocket.net.router import Router
from skyrocket.protocol.command import Command
from skyrocket.protocol.config_text import encode_config
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from skyrocket.settings.live import LiveSettings
from skyrocket.settings.requests import change_settings


class ConfigRequests:
    def __init__(self, settings: LiveSettings[NameserverSettings]) -> None:
        self._settings = settings

    def register(self, router: Router) -> None:
        router.add(RequestCode.UPDATE_NAMESRV_CONFIG, self.update)
        router.add(RequestCode.GET_NAMESRV_CONFIG, self.get)

    async def update(self, request: Command, connection: Connection) -> Command:
        await change_settings(self._settings, request, connection)
        return request.response(ResponseCode.SUCCESS)

    def get(self, request: Command, _: Connection) -> Command:
        return request.response(ResponseCode.SUCCESS, body=encode_config(self._settings().to_texts()))
