"""Requests of an administrator that change the settings of a running server."""

from __future__ import annotations

import logging

from skyrocket.net.connection import Connection
from skyrocket.net.outside_log import OutsideLog
from skyrocket.net.router import RefusedError
from skyrocket.protocol.command import Command
from skyrocket.protocol.config_text import decode_config
from skyrocket.protocol.responses import ResponseCode
from skyrocket.settings.errors import FixedSettingError, SettingsError
from skyrocket.settings.live import LiveSettings, S

outside = OutsideLog(logging.getLogger(__name__))


async def change_settings(settings: LiveSettings[S], request: Command, connection: Connection) -> None:
    """Apply the changes in a request's body, or raise RefusedError."""
    texts = decode_config(request.body)
    try:
        await settings.change(texts)
    except FixedSettingError as error:
        outside.warning("Refused a change of settings by %s: %s", connection.peer_text, error)
        raise RefusedError(ResponseCode.NO_PERMISSION, str(error)) from error
    except SettingsError as error:
        raise RefusedError(ResponseCode.SYSTEM_ERROR, str(error)) from error
    except OSError as error:
        remark = f"The change could not be saved and was not applied: {error.strerror}."
        raise RefusedError(ResponseCode.SYSTEM_ERROR, remark) from error
    outside.info("%s changed %s.", connection.peer_text, ", ".join(texts) or "nothing")
