"""TLS on the same port as plain connections. The first byte of a TLS handshake is 0x16, that of a frame 0x00.

`TlsLayer` sits between the transport and the connection. It works on memory buffers, so it behaves alike under every event loop,
and a connection can switch to TLS after its first bytes were read.

A context knows its files. Whoever holds one calls `renew` now and then: a renewed certificate needs no restart.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

from skyrocket.net.errors import NetError

log = logging.getLogger(__name__)

HANDSHAKE: Final = 0x16
RENEWAL_MS: Final = 10_000  # between two looks at the files of certificates
_READ_BYTES = 256 * 1024


class CertificateFiles(NamedTuple):
    """A certificate with its chain, its key, and the certificates to trust, in PEM. Each may be empty."""

    certificate: str | Path
    key: str | Path
    password: str
    trusted: str | Path

    def load_into(self, context: ssl.SSLContext) -> None:
        """Raise NetError when a file cannot be used."""
        if str(self.certificate):
            try:  # with a password, if only "", OpenSSL asks nobody for one
                context.load_cert_chain(self.certificate, self.key or None, self.password)
            except OSError as error:  # includes ssl.SSLError
                raise NetError(f"The certificate {self.certificate} cannot be used with the key {self.key}: {error}.") from error
        if str(self.trusted):
            try:
                context.load_verify_locations(self.trusted)
            except OSError as error:
                raise NetError(f"The certificates to trust in {self.trusted} cannot be used: {error}.") from error

    def stamp(self) -> tuple[tuple[int, int, int], ...] | None:
        """Return what changes with the files; None while one of them cannot be seen, for example because it is being replaced."""
        try:
            found = [Path(path).stat() for path in (self.certificate, self.key, self.trusted) if str(path)]
        except OSError:
            return None
        return tuple((each.st_mtime_ns, each.st_size, each.st_ino) for each in found)


class RenewableContext(ssl.SSLContext):
    """Stands for the context of the files as they are now: when they change, it makes another one for new connections.

    A context that has trusted an authority once trusts it forever, and accepts the session tickets that it gave out. So files
    are never loaded into a context that was in use. Connections that are open keep the context that they began with.
    """

    def load(self, files: CertificateFiles, prepare: Callable[[ssl.SSLContext], None]) -> None:
        """Load the files. `prepare` sets everything else of a new context. Raise NetError when a file cannot be used."""
        self._files = files
        self._prepare = prepare
        self._stamp = self._refused = files.stamp()
        self.renewal_ms = 0
        prepare(self)  # for whoever asks what it demands of peers
        self.current = self._make()

    def _make(self) -> ssl.SSLContext:
        made = ssl.SSLContext(self.protocol)
        self._prepare(made)
        self._files.load_into(made)
        return made

    def renew(self) -> None:
        """Load the files again if one has changed. Files that cannot be used are logged once; what was loaded before stays."""
        stamp = self._files.stamp()
        if stamp is None or stamp in (self._stamp, self._refused):
            return
        try:
            self.current = self._make()
        except NetError as error:
            self._refused = stamp
            log.error("%s New connections go on with the certificate that was loaded before.", error)
            return
        self._stamp = stamp
        log.info("Loaded the renewed certificates %s.", ", ".join(str(path) for path in self._shown() if str(path)))

    def _shown(self) -> tuple[str | Path, ...]:
        return (self._files.certificate, self._files.trusted)

    # --- what event loops call, and connections

    def wrap_bio(self, *arguments: Any, **options: Any) -> ssl.SSLObject:
        return self.current.wrap_bio(*arguments, **options)

    def wrap_socket(self, *arguments: Any, **options: Any) -> ssl.SSLSocket:
        return self.current.wrap_socket(*arguments, **options)


def renew(context: ssl.SSLContext | None, now_ms: int) -> None:
    """Look at a context's files every RENEWAL_MS, however often it is called. A context of the caller's own has no files."""
    if isinstance(context, RenewableContext) and now_ms >= context.renewal_ms:
        context.renewal_ms = now_ms + RENEWAL_MS
        context.renew()


def server_context(
    certificate: str | Path,
    key: str | Path,
    *,
    password: str = "",
    trusted: str | Path = "",
    client_certificates: ssl.VerifyMode = ssl.CERT_NONE,
) -> RenewableContext | None:
    """Load a certificate (with its chain) and its key from files. Return None when no certificate is named.

    With `client_certificates`, a client's certificate must be signed by one of those in the file `trusted`.
    """
    if not str(certificate):
        return None

    def prepare(made: ssl.SSLContext) -> None:
        made.minimum_version = ssl.TLSVersion.TLSv1_2
        made.verify_mode = client_certificates

    wants_certificates = client_certificates is not ssl.CERT_NONE
    context = RenewableContext(ssl.PROTOCOL_TLS_SERVER)
    context.load(CertificateFiles(certificate, key, password, trusted if wants_certificates else ""), prepare)
    return context


def client_context(
    certificate: str | Path, key: str | Path, *, password: str = "", trusted: str | Path = "", verifies: bool = True
) -> RenewableContext:
    """Return the context of outgoing connections. Without `trusted`, the system's certificates are trusted.

    `certificate` may be empty; it is shown to servers that ask for one. Without `verifies`, any server is believed.
    """

    def prepare(made: ssl.SSLContext) -> None:
        made.load_default_certs()
        if not verifies:
            made.check_hostname = False
            made.verify_mode = ssl.CERT_NONE

    context = RenewableContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load(CertificateFiles(certificate, key, password, trusted if verifies else ""), prepare)
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
