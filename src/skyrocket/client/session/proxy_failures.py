"""What a proxy answers in the place of a broker or nameserver, as the error that the client would have met without the proxy.

    proxyFailure=notSent           ConnectError: nobody has the request
    proxyFailure=connectionLost    ConnectionLostError: whether the server carried out the request is unknown

Callers then do what they do without a proxy: a send is repeated or not, a route is fetched again, another nameserver is asked.
"""

from __future__ import annotations

from typing import Final

from skyrocket.net.errors import ConnectError, ConnectionLostError, NetError
from skyrocket.protocol.command import Command
from skyrocket.protocol.responses import CONNECTION_LOST, NOT_SENT, PROXY_FAILURE, ResponseCode

_ERRORS: Final[dict[str, type[NetError]]] = {NOT_SENT: ConnectError, CONNECTION_LOST: ConnectionLostError}


def check_proxy(response: Command, address: str) -> None:
    """Raise the error of a proxy that got no response. Return when a server itself has answered.

    The address is that of the proxy: the remark names the server behind it.
    """
    if response.code != ResponseCode.SERVICE_NOT_AVAILABLE:
        return
    error = _ERRORS.get(response.fields.get(PROXY_FAILURE, ""))
    if error is not None:
        raise error(f"The proxy at {address} got no answer. {response.remark}")
