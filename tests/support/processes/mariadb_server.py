"""A real MariaDB server on loopback, in a folder of its own: what speaks MySQL's protocol and SQL in Debian."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pymysql

from tests.support.ports import free_port
from tests.support.tools import need
from tests.support.waiting import wait_until

USER = "mysql"  # Debian's; the server refuses to run as root


@contextmanager
def mariadb_server() -> Iterator[dict[str, Any]]:
    """The arguments of `pymysql.connect`, with a database of its own. It syncs nothing."""
    need("mariadbd")
    need("mariadb-install-db")
    folder = Path(tempfile.mkdtemp(prefix="mariadb-"))  # not below pytest's folders, into which only their owner may look
    data, port = folder / "data", free_port()
    as_user = [f"--user={USER}"] if os.geteuid() == 0 else []
    try:
        if as_user:
            shutil.chown(folder, USER, USER)
        made = ["mariadb-install-db", "--no-defaults", f"--datadir={data}", "--auth-root-authentication-method=normal", *as_user]
        subprocess.run([*made, "--skip-test-db", "--skip-name-resolve"], check=True, stdout=subprocess.DEVNULL, cwd=folder)
        settings = [f"--datadir={data}", f"--port={port}", f"--socket={folder / 'socket'}", f"--pid-file={folder / 'pid'}"]
        quick = ["--bind-address=127.0.0.1", "--skip-name-resolve", "--innodb-flush-log-at-trx-commit=0", "--skip-log-bin"]
        with (folder / "log").open("wb") as log:
            server = subprocess.Popen(
                ["mariadbd", "--no-defaults", *settings, *quick, *as_user], stdout=log, stderr=log, cwd=folder
            )
        address = {"host": "127.0.0.1", "port": port, "user": "root", "connect_timeout": 2}
        try:
            wait_until(lambda: _is_up(address) or server.poll() is not None, "MariaDB is up")
            assert server.poll() is None, (folder / "log").read_text()
            with pymysql.connect(**address) as connection, connection.cursor() as cursor:
                cursor.execute("CREATE DATABASE app")
            yield {**address, "database": "app"}
        finally:
            server.terminate()
            server.wait()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _is_up(address: dict[str, Any]) -> bool:
    try:
        pymysql.connect(**address).close()
    except pymysql.MySQLError:
        return False
    return True
