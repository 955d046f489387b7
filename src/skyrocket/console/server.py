"""Serves the console over HTTP: its clusters, and uvicorn around the application.

async with ConsoleServer(options) as server:
    print(server.url)
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import uvicorn

from skyrocket.console.application import Access, ConsoleApplication
from skyrocket.console.clusters import ConsoleCluster, check_clusters, open_clusters
from skyrocket.console.errors import ConsoleError
from skyrocket.console.security.hosts import AllowedHosts, is_loopback
from skyrocket.console.security.users import ConsoleUser, parse_users

CONNECTIONS_MAX: Final = 128
KEEP_ALIVE_S: Final = 10
STOP_S_MAX: Final = 3
HEAD_BYTES_MAX: Final = 16 * 1024
_POLL_S: Final = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleOptions:
    """Where the console listens, for which clusters, and who may use it."""

    clusters: tuple[ConsoleCluster, ...]
    port: int  # 0: any free port
    host: str = "127.0.0.1"
    users: Path | None = None  # the file of users; None: nobody logs in, which is possible on loopback alone
    allowed_hosts: tuple[str, ...] = ()
    certificate: Path | None = None
    key: Path | None = None

    def read_access(self) -> Access:
        """Return who may use the console. Raise ConsoleError when that would be everybody in the network."""
        users: dict[str, ConsoleUser] | None = None
        if self.users is not None:
            try:
                users = parse_users(self.users.read_text("utf-8"), str(self.users))
            except (OSError, UnicodeDecodeError) as error:
                raise ConsoleError(f"The file of users {self.users} cannot be read: {error}") from error
        elif not is_loopback(self.host):
            raise ConsoleError(
                f"On {self.host}, everybody who can connect could use the console. Give the people who may with --users FILE; "
                "skyrocket console --hash-password makes a line of that file."
            )
        if (self.certificate is None) != (self.key is None):
            raise ConsoleError("Give --tls-cert and --tls-key together, or neither.")
        return Access(AllowedHosts(self.host, self.allowed_hosts), users)


class ConsoleServer:
    """`async with` starts it and stops it. `stopped` of the caller decides when."""

    def __init__(self, options: ConsoleOptions) -> None:
        self._options = options
        self._stack = AsyncExitStack()
        self.port = 0

    @property
    def url(self) -> str:
        host = f"[{self._options.host}]" if ":" in self._options.host else self._options.host
        return f"{'https' if self._options.certificate else 'http'}://{host}:{self.port}/"

    async def __aenter__(self) -> Self:
        check_clusters(self._options.clusters)
        access = self._options.read_access()
        listening = self._listen()
        async with AsyncExitStack() as stack:
            stack.callback(listening.close)
            application = ConsoleApplication(await open_clusters(self._options.clusters, stack), access)
            await self._serve(application, listening, stack)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self._stack.aclose()

    def _listen(self) -> socket.socket:
        host, port = self._options.host, self._options.port
        try:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            listening = socket.create_server((host, port), family=family)
        except OSError as error:
            raise ConsoleError(
                f"The console cannot listen on {host}:{port}: {error.strerror or error}. Choose another port with --port."
            ) from error
        self.port = listening.getsockname()[1]
        return listening

    async def _serve(self, application: ConsoleApplication, listening: socket.socket, stack: AsyncExitStack) -> None:
        config = uvicorn.Config(
            application.asgi(),
            log_config=None,
            log_level="warning",  # it has its own words for a start and a stop
            access_log=False,
            lifespan="off",
            http="h11",
            ws="none",
            server_header=False,
            limit_concurrency=CONNECTIONS_MAX,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=STOP_S_MAX,
            h11_max_incomplete_event_size=HEAD_BYTES_MAX,
            ssl_certfile=self._options.certificate,
            ssl_keyfile=self._options.key,
        )
        try:
            config.load()
        except (OSError, ssl.SSLError) as error:
            raise ConsoleError(f"The certificate or its key cannot be used: {error}") from error
        server = _QuietServer(config)
        serving = asyncio.ensure_future(server.serve(sockets=[listening]))

        async def stop() -> None:
            server.should_exit = True
            await serving

        stack.push_async_callback(stop)
        while not server.started and not serving.done():  # noqa: ASYNC110 — uvicorn has no event for it
            await asyncio.sleep(_POLL_S)


class _QuietServer(uvicorn.Server):
    """uvicorn without handlers of signals: whoever runs the console has them."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
