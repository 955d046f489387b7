"""The errors of the console. Each message is a sentence or two for whoever caused it."""

from __future__ import annotations

from http import HTTPStatus


class ConsoleError(Exception):
    """The console cannot start: an option or a file is wrong, or its port is taken."""


class VisitError(Exception):
    """A request that is answered with an error page instead of what it asked for."""

    status = HTTPStatus.BAD_REQUEST


class InputError(VisitError):
    """A field of a form or of an address that cannot be used. Nothing was changed."""


class MissingPageError(VisitError):
    """There is no such page."""

    status = HTTPStatus.NOT_FOUND


class NotConnectedError(VisitError):
    """The cluster cannot be connected: its certificate or its secret key is missing."""

    status = HTTPStatus.BAD_GATEWAY


class NotPermittedError(VisitError):
    """The visitor may not do this. Nothing was changed."""

    status = HTTPStatus.FORBIDDEN
