"""A certificate that signs itself, for a server on this machine."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path
from typing import NamedTuple

from tests.support.tools import need

_REQUEST = "req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 2 -subj /CN=localhost"
_NAMES = ("-addext", "subjectAltName=IP:127.0.0.1")


class Certificate(NamedTuple):
    path: Path  # what clients are to trust, too
    key: Path

    @classmethod
    def made(cls, folder: Path) -> Certificate:
        need("openssl")
        subprocess.run(["openssl", *_REQUEST.split(), *_NAMES], cwd=folder, check=True, capture_output=True)
        return cls(folder / "cert.pem", folder / "key.pem")

    @property
    def server_settings(self) -> dict[str, object]:
        """Of a nameserver or a broker that shows it."""
        return {"tls.server.certPath": self.path, "tls.server.keyPath": self.key}

    def trusted(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.path))
