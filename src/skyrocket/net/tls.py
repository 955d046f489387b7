"""TLS on the port where plain connections come too. The first byte tells: a TLS handshake starts with 0x16, a frame with 0x00.

The layer stands between a transport and what handles plain bytes. It works on memory only, so it is the same under every event
loop, and a connection can become TLS after its first bytes were read.
"""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Final

from skyrocket.net.errors import NetError

HANDSHAKE: Final = 0x16
_READ_BYTES = 256 * 1024


def server_context(certificate: str | Path, key: str | Path) -> ssl.SSLContext | None:
    """From the files of a certificate (with its chain) and its key; None where no certificate is named."""
    if not str(certificate):
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key or None)
    except OSError as error:  # ssl.SSLError is one
        raise NetError(f"The certificate {certificate} with the key {key} cannot be used: {error}.") from error
    return context


class TlsLayer:
    def __init__(self, context: ssl.SSLContext) -> None:
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._object = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._shaken = False
        self._waiting: list[bytes] = []  # written before the handshake was done

    def receive(self, data: bytes) -> bytes:
        """Bytes from the network; the plain bytes that they bring. ssl.SSLError when they are not TLS. Then ask `to_send`."""
        self._incoming.write(data)
        plain: list[bytes] = []
        try:
            if not self._shaken:
                self._object.do_handshake()
                self._shaken = True
                for early in self._waiting:
                    self._object.write(early)
                self._waiting.clear()
            while piece := self._object.read(_READ_BYTES):
                plain.append(piece)
        except ssl.SSLWantReadError:
            pass
        return b"".join(plain)

    def send(self, data: bytes) -> None:
        """Plain bytes for the peer. Then ask `to_send`."""
        if self._shaken:
            self._object.write(data)
        else:
            self._waiting.append(data)

    def to_send(self) -> bytes:
        """What the network must carry now."""
        return self._outgoing.read()
