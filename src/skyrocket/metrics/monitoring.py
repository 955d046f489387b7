"""The three pages of a server: `/metrics`, `/healthz` and `/readyz`; or an exporter that sends its metrics away.

| page      | 200                                        | 503                                                        |
|-----------|--------------------------------------------|------------------------------------------------------------|
| /healthz  | the event loop turns, or the server starts | the event loop has not turned for LIVE_S                   |
| /readyz   | the server serves                          | it starts, stops, or has a reason: one sentence a line     |
| /metrics  | the metrics                                | it starts or stops; the loop has not built the page in PAGE_S |

A server that starts is alive, however long the recovery of its store holds up the event loop: whoever ends a process that does
not answer must not end a recovery.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, TypeVar

from skyrocket.metrics.exposition import CONTENT_TYPE
from skyrocket.metrics.health import Health, Phase
from skyrocket.metrics.http_listener import HttpListener, Network
from skyrocket.metrics.http_request import HttpResponse, text_response
from skyrocket.metrics.page import MetricsPage
from skyrocket.net.errors import NetError

if TYPE_CHECKING:
    from skyrocket.metrics.otlp import OtlpExporter

log = logging.getLogger(__name__)

LIVE_S: Final = 5.0
PAGE_S: Final = 8.0  # less than the time of an exchange

Answer = TypeVar("Answer")


class LoopBusyError(Exception):
    """The event loop of the server did not answer in time."""


class Monitoring:
    def __init__(self, health: Health, live_s: float = LIVE_S, page_s: float = PAGE_S) -> None:
        self.health = health
        self.page: MetricsPage | None = None  # until the server has its parts, there is nothing to measure
        self._live_s = live_s
        self._page_s = page_s
        self._loop: asyncio.AbstractEventLoop | None = None
        self._listener = HttpListener({"/metrics": self._metrics, "/healthz": self._is_alive, "/readyz": self._is_ready})
        self._exporter: OtlpExporter | None = None
        self.port = 0

    def begin(
        self,
        address: tuple[str, int],
        otlp: tuple[str, tuple[tuple[str, str], ...], int, int] | None,
        readers: Sequence[Network] = (),
    ) -> None:
        """Listen on the address, for `readers` if there are any; or send metrics to a collector.

        Raise NetError when that is not possible.
        """
        if otlp is None:
            self.start(*address, readers)
            return
        from skyrocket.metrics.otlp import OtlpExporter, OtlpTarget  # noqa: PLC0415 — gRPC is large, and an extra

        self._exporter = OtlpExporter(OtlpTarget(*otlp), self._serving_page)
        self._exporter.start()

    def _serving_page(self) -> MetricsPage | None:
        """Return the page, unless the server stops: parts that it asks may be closed already."""
        return None if self.health.phase is Phase.STOPPING else self.page

    def start(self, host: str, port: int, readers: Sequence[Network] = ()) -> None:
        """Listen. Call it in the event loop of the server. Raise NetError when nobody can listen there."""
        self._loop = asyncio.get_running_loop()
        try:
            self.port = self._listener.listen(host, port, readers)
        except NetError as error:
            raise NetError(f"{error} It is for metrics: choose another metricsPromExporterPort.") from error
        log.info("Metrics and health are on http://%s:%d/metrics, /healthz and /readyz.", host, self.port)

    async def close(self) -> None:
        if self._exporter is not None:
            await asyncio.to_thread(self._exporter.close)
        await asyncio.to_thread(self._listener.close)

    # --- in the thread of the listener

    async def _metrics(self) -> HttpResponse:
        page = self._serving_page()
        if page is None:
            return text_response(HTTPStatus.SERVICE_UNAVAILABLE, *self.health.why_not_ready())
        try:
            body = await self._ask(page.render, self._page_s)
        except LoopBusyError as error:
            return text_response(HTTPStatus.SERVICE_UNAVAILABLE, str(error))
        return HttpResponse(HTTPStatus.OK, body, CONTENT_TYPE)

    async def _is_alive(self) -> HttpResponse:
        if self.health.phase is Phase.SERVING:
            try:
                await self._ask(_turn, self._live_s)
            except LoopBusyError as error:
                return text_response(HTTPStatus.SERVICE_UNAVAILABLE, str(error))
        return text_response(HTTPStatus.OK, self.health.phase)

    async def _is_ready(self) -> HttpResponse:
        if self.health.phase is not Phase.SERVING:
            return text_response(HTTPStatus.SERVICE_UNAVAILABLE, *self.health.why_not_ready())
        try:
            why_not = await self._ask(self._why_not_ready, self._live_s)
        except LoopBusyError as error:
            why_not = [str(error)]
        if why_not:
            return text_response(HTTPStatus.SERVICE_UNAVAILABLE, *why_not)
        return text_response(HTTPStatus.OK, "ready")

    async def _why_not_ready(self) -> list[str]:
        return self.health.why_not_ready()

    async def _ask(self, question: Callable[[], Coroutine[Any, Any, Answer]], limit_s: float) -> Answer:
        """Await a coroutine in the server's event loop. Raise LoopBusyError when that takes too long."""
        assert self._loop is not None
        asked = asyncio.wrap_future(asyncio.run_coroutine_threadsafe(question(), self._loop))
        done, _ = await asyncio.wait([asked], timeout=limit_s)
        if not done:
            asked.cancel()
            raise LoopBusyError(f"The event loop has not answered for {limit_s:g} s.")
        return asked.result()


async def _turn() -> None:
    """Nothing: it is the turn of the event loop that counts."""
