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


def server_context(
    certificate: str | Path,
    key: str | Path,
    *,
    password: str = "",
    trusted: str | Path = "",
    client_certificates: ssl.VerifyMode = ssl.CERT_NONE,
) -> ssl.SSLContext | None:
    """Load a certificate (with its chain) and its key from files. Return None when no certificate is named.

    With `client_certificates`, a client's certificate must be signed by one of those in the file `trusted`.
    """
    if not str(certificate):
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _load_pair(context, certificate, key, password)
    if client_certificates is not ssl.CERT_NONE:
        _load_trusted(context, trusted)
        context.verify_mode = client_certificates
    return context


def client_context(
    certificate: str | Path, key: str | Path, *, password: str = "", trusted: str | Path = "", verifies: bool = True
) -> ssl.SSLContext:
    """Return the context of outgoing connections. Without `trusted`, the system's certificates are trusted.

    `certificate` may be empty; it is shown to servers that ask for one. Without `verifies`, any server is believed.
    """
    context = ssl.create_default_context()
    if str(certificate):
        _load_pair(context, certificate, key, password)
    if not verifies:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif str(trusted):
        _load_trusted(context, trusted)
    return context


def _load_pair(context: ssl.SSLContext, certificate: str | Path, key: str | Path, password: str) -> None:
    try:
        context.load_cert_chain(certificate, key or None, password)  # with a password, if only "", OpenSSL asks nobody for one
    except OSError as error:  # includes ssl.SSLError
        raise NetError(f"The certificate {certificate} cannot be used with the key {key}: {error}.") from error


def _load_trusted(context: ssl.SSLContext, trusted: str | Path) -> None:
    try:
        context.load_verify_locations(trusted)
    except OSError as error:
        raise NetError(f"The certificates to trust in {trusted} cannot be used: {error}.") from error


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
