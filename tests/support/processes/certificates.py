"""Certificates for a server on this machine: one that signs itself, and an authority that signs those of servers and clients."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path
from typing import NamedTuple

from tests.support.tools import need

_SELF_SIGNED = "req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 2 -subj /CN=localhost"
_AUTHORITY = "req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -days 2 -subj /CN=authority"
_NAMES = "subjectAltName=IP:127.0.0.1"


def _openssl(folder: Path, arguments: str, *more: str) -> None:
    need("openssl")
    subprocess.run(["openssl", *arguments.split(), *more], cwd=folder, check=True, capture_output=True)


class Certificate(NamedTuple):
    path: Path  # a client trusts it when it signs itself
    key: Path

    @classmethod
    def make(cls, folder: Path) -> Certificate:
        """Make one that signs itself."""
        _openssl(folder, _SELF_SIGNED, "-addext", _NAMES)
        return cls(folder / "cert.pem", folder / "key.pem")

    @property
    def server_settings(self) -> dict[str, object]:
        """Of a nameserver or a broker that shows it, and of a broker that trusts a nameserver that shows it."""
        shown = {"tls.server.certPath": self.path, "tls.server.keyPath": self.key}
        return {**shown, "tls.client.trustCertPath": self.path}

    def trusted(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.path))


class Authority(NamedTuple):
    """Signs certificates."""

    folder: Path

    @classmethod
    def make(cls, folder: Path) -> Authority:
        folder.mkdir(parents=True, exist_ok=True)
        _openssl(folder, _AUTHORITY)
        return cls(folder)

    @property
    def path(self) -> Path:
        return self.folder / "ca.pem"

    def certificate(self, name: str, password: str = "") -> Certificate:
        """Make a certificate and its key (PKCS #8, as Java wants it) for this name."""
        locked = ["-passout", f"pass:{password}"] if password else ["-nodes"]
        request = f"req -newkey rsa:2048 -keyout {name}.key -out {name}.csr -subj /CN={name}"
        _openssl(self.folder, request, *locked)
        (self.folder / "names.ext").write_text(_NAMES)
        sign = f"x509 -req -in {name}.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names.ext -out {name}.pem"
        _openssl(self.folder, sign)
        return Certificate(self.folder / f"{name}.pem", self.folder / f"{name}.key")

    def mutual_settings(self, shown: Certificate, own: Certificate) -> dict[str, object]:
        """Of servers that show one certificate, require one of their clients, and show the other one as clients themselves."""
        return {
            "tls.server.certPath": shown.path,
            "tls.server.keyPath": shown.key,
            "tls.server.need.client.auth": "require",
            "tls.server.trustCertPath": self.path,
            "tls.client.certPath": own.path,
            "tls.client.keyPath": own.key,
            "tls.client.trustCertPath": self.path,
        }

    def trusted(self, shown: Certificate | None = None) -> ssl.SSLContext:
        """The context of a client that trusts this authority and shows this certificate."""
        context = ssl.create_default_context(cafile=str(self.path))
        if shown is not None:
            context.load_cert_chain(shown.path, shown.key)
        return context
