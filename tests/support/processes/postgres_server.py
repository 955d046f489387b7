"""A real PostgreSQL server on loopback, in a folder of its own. It refuses root, so root starts it as the user postgres."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from tests.support.ports import free_port
from tests.support.tools import need
from tests.support.waiting import wait_until

USER = "postgres"


def _program(name: str) -> str:
    """Debian keeps the server's programs out of the path, in a folder for each version."""
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    if found:
        return str(found[-1])
    need(name)
    return name


@contextmanager
def postgres_server() -> Iterator[str]:
    """Its connection string. Everybody on loopback is its superuser; it syncs nothing."""
    initdb, postgres = _program("initdb"), _program("postgres")
    is_root = os.geteuid() == 0
    if is_root:
        need("setpriv")
    as_user = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups"] if is_root else []
    folder = Path(tempfile.mkdtemp(prefix="postgres-"))  # not below pytest's folders, into which only their owner may look
    try:
        if is_root:
            shutil.chown(folder, USER, USER)
        data, port = folder / "data", free_port()
        choices = ["--username", USER, "--auth", "trust", "--no-sync", "--no-locale", "--encoding=UTF8"]
        subprocess.run([*as_user, initdb, "--pgdata", str(data), *choices], check=True, stdout=subprocess.DEVNULL, cwd=folder)
        settings = {"listen_addresses": "127.0.0.1", "port": str(port), "unix_socket_directories": "", "fsync": "off"}
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        with (folder / "log").open("wb") as log:
            server = subprocess.Popen([*as_user, postgres, "-D", str(data), *options], stdout=log, stderr=log, cwd=folder)
        try:
            address = f"host=127.0.0.1 port={port} user={USER} dbname=postgres"
            wait_until(lambda: _is_up(address) or server.poll() is not None, "PostgreSQL is up")
            assert server.poll() is None, (folder / "log").read_text()
            yield address
        finally:
            server.terminate()
            server.wait()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _is_up(address: str) -> bool:
    try:
        psycopg.connect(address, connect_timeout=2).close()
    except psycopg.OperationalError:
        return False
    return True
