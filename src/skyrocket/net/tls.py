"""TLS on the same port as plain connections. The first byte of a TLS handshake is 0x16, that of a frame 0x00.

`TlsLayer` sits between the transport and the connection. It works on memory buffers, so it behaves alike under every event loop,
and a connection can switch to TLS after its first bytes were read.
"""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Final

from skyrocket.net.errors import NetError

HANDSHAKE: Final = 0x16
_READ_BYTES = 256 * 1024


def server_context(certificate: str | Path, key: str | Path) -> ssl.SSLContext | None:
    """Load a certificate (with its chain) and its key from files. Return None when no certificate is named."""
    if not str(certificate):
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key or None)
    except OSError as error:  # includes ssl.SSLError
        raise NetError(f"The certificate {certificate} cannot be used with the key {key}: {error}.") from error
    return context


class TlsLayer:
    def __init__(self, context: ssl.SSLContext) -> None:
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._object = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._is_handshake_done = False
        self._waiting: list[bytes] = []  # plain bytes to send once the handshake is done

    def receive(self, data: bytes) -> bytes:
        """Decrypt bytes from the network. Raise ssl.SSLError when they are not TLS. Call `to_send` next."""
        self._incoming.write(data)
        plain: list[bytes] = []
        try:
            if not self._is_handshake_done:
                self._object.do_handshake()
                self._is_handshake_done = True
                for early in self._waiting:
                    self._object.write(early)
                self._waiting.clear()
            while piece := self._object.read(_READ_BYTES):
                plain.append(piece)
        except ssl.SSLWantReadError:
            pass
        return b"".join(plain)

    def send(self, data: bytes) -> None:
        """Encrypt bytes for the peer. Call `to_send` next."""
        if self._is_handshake_done:
            self._object.write(data)
        else:
            self._waiting.append(data)

    def to_send(self) -> bytes:
        """Return the encrypted bytes to write to the network."""
        return self._outgoing.read()
