"""A server's own settings, changed from afar by an administrator."""

from __future__ import annotations

import logging

from skyrocket.net.connection import Connection
from skyrocket.net.router import RefusedError
from skyrocket.protocol.command import Command
from skyrocket.protocol.config_text import decode_config
from skyrocket.protocol.responses import ResponseCode
from skyrocket.settings.errors import FixedSettingError, SettingsError
from skyrocket.settings.live import LiveSettings, S

log = logging.getLogger(__name__)


async def change_settings(settings: LiveSettings[S], request: Command, connection: Connection) -> None:
    """As the request's body says. RefusedError otherwise."""
    texts = decode_config(request.body)
    try:
        await settings.change(texts)
    except FixedSettingError as error:
        log.warning("%s may not do this: %s", connection.peer_text, error)
        raise RefusedError(ResponseCode.NO_PERMISSION, str(error)) from error
    except SettingsError as error:
        raise RefusedError(ResponseCode.SYSTEM_ERROR, str(error)) from error
    except OSError as error:
        remark = f"The change could not be written, and was not made: {error.strerror}."
        raise RefusedError(ResponseCode.SYSTEM_ERROR, remark) from error
    log.info("%s changed %s.", connection.peer_text, ", ".join(texts) or "nothing")
