"""The nameserver's own settings, asked for and changed from afar."""

from __future__ import annotations

import logging

from skyrocket.nameserver.errors import FixedSettingError, SettingsError
from skyrocket.nameserver.live_settings import LiveSettings
from skyrocket.net.connection import Connection
from skyrocket.net.router import RefusedError, Router
from skyrocket.protocol.command import Command
from skyrocket.protocol.config_text import decode_config, encode_config
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode

log = logging.getLogger(__name__)


class ConfigRequests:
    def __init__(self, settings: LiveSettings) -> None:
        self._settings = settings

    def register(self, router: Router) -> None:
        router.add(RequestCode.UPDATE_NAMESRV_CONFIG, self.update)
        router.add(RequestCode.GET_NAMESRV_CONFIG, self.get)

    async def update(self, request: Command, connection: Connection) -> Command:
        texts = decode_config(request.body)
        try:
            await self._settings.change(texts)
        except FixedSettingError as error:
            log.warning("%s may not do this: %s", connection.peer_text, error)
            raise RefusedError(ResponseCode.NO_PERMISSION, str(error)) from error
        except SettingsError as error:
            raise RefusedError(ResponseCode.SYSTEM_ERROR, str(error)) from error
        except OSError as error:
            remark = f"The change could not be written, and was not made: {error.strerror}."
            raise RefusedError(ResponseCode.SYSTEM_ERROR, remark) from error
        log.info("%s changed %s.", connection.peer_text, ", ".join(texts) or "nothing")
        return request.response(ResponseCode.SUCCESS)

    def get(self, request: Command, _: Connection) -> Command:
        return request.response(ResponseCode.SUCCESS, body=encode_config(self._settings.now.to_texts()))
