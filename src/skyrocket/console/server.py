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
from typing import Any, Final, Self

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from skyrocket.console.application import Access, ConsoleApplication
from skyrocket.console.clusters import ConsoleCluster, check_clusters, open_clusters
from skyrocket.console.errors import ConsoleError
from skyrocket.console.limits import CONNECTIONS_MAX, CONNECTIONS_PER_ADDRESS_MAX, REQUEST_S_MAX
from skyrocket.console.security.hosts import AllowedHosts, is_loopback
from skyrocket.console.security.users import ConsoleUser, parse_users
from skyrocket.net.errors import NetError
from skyrocket.net.tls import RENEWAL_MS, RenewableContext, server_context
from skyrocket.supervised_task import SupervisedTask

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
    client_ca: Path | None = None  # who signs the certificates that browsers have to show; None: they show none

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
        if self.client_ca is not None and self.certificate is None:
            raise ConsoleError("--tls-client-ca needs a certificate of the console: give --tls-cert and --tls-key.")
        return Access(AllowedHosts(self.host, self.allowed_hosts), users)

    def tls_context(self) -> RenewableContext | None:
        """Return the context of HTTPS, whose files are loaded again when they change; None for HTTP."""
        try:
            return server_context(
                self.certificate or "",
                self.key or "",
                trusted=self.client_ca or "",
                client_certificates=ssl.CERT_REQUIRED if self.client_ca else ssl.CERT_NONE,
            )
        except NetError as error:
            raise ConsoleError(str(error)) from error


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
        access, tls = self._options.read_access(), self._options.tls_context()
        listening = self._listen()
        async with AsyncExitStack() as stack:
            stack.callback(listening.close)
            application = ConsoleApplication(await open_clusters(self._options.clusters, stack), access)
            await self._serve(application, listening, tls, stack)
            if tls is not None:
                stack.push_async_callback(SupervisedTask("certificates", lambda: _renew(tls)).close)
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

    async def _serve(
        self, application: ConsoleApplication, listening: socket.socket, tls: RenewableContext | None, stack: AsyncExitStack
    ) -> None:
        config = uvicorn.Config(
            application.asgi(),
            log_config=None,
            log_level="warning",  # it has its own words for a start and a stop
            access_log=False,
            lifespan="off",
            http=VisitorConnection,
            ws="none",
            server_header=False,
            limit_concurrency=CONNECTIONS_MAX,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=STOP_S_MAX,
            h11_max_incomplete_event_size=HEAD_BYTES_MAX,
        )
        config.load()
        config.ssl = tls  # uvicorn's own would never load the files again
        server = _QuietServer(config)
        serving = asyncio.ensure_future(server.serve(sockets=[listening]))

        async def stop() -> None:
            server.should_exit = True
            await serving

        stack.push_async_callback(stop)
        while not server.started and not serving.done():  # noqa: ASYNC110 — uvicorn has no event for it
            await asyncio.sleep(_POLL_S)


async def _renew(tls: RenewableContext) -> None:
    while True:
        await asyncio.sleep(RENEWAL_MS / 1000)
        tls.renew()


class VisitorConnection(H11Protocol):
    """An HTTP connection of a visitor: uvicorn's, with bounds that uvicorn lacks.

        opened   ──REQUEST_S_MAX──▶ closed, unless a whole request came
        answered ──REQUEST_S_MAX──▶ closed, unless another one came

    Otherwise connections that send nothing, or a byte now and then, would take all places of the console.
    """

    request_s_max = REQUEST_S_MAX
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        same = [one for one in self.connections if isinstance(one, VisitorConnection) and one._address() == self._address()]
        if len(same) > CONNECTIONS_PER_ADDRESS_MAX:
            transport.close()
            return
        self._wait_for_request()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget_deadline()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        self._wait_for_request()  # before the next request, which may be here already
        super().on_response_complete()

    def _address(self) -> str:
        return self.client[0] if self.client else ""

    def _wait_for_request(self) -> None:
        self._forget_deadline()
        self._deadline = self.loop.call_later(self.request_s_max, self._close_without_request, self.cycle)

    def _close_without_request(self, answered: Any) -> None:
        """Close the connection unless a request came after the one that was answered last."""
        if self.cycle is answered:
            self.transport.close()

    def _forget_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class _QuietServer(uvicorn.Server):
    """uvicorn without handlers of signals: whoever runs the console has them."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
