"""An HTTP server on loopback that lists nameservers, as `rocketmq.namesrv.domain` names one."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self


class AddressServer:
    """Answers every GET with `text`, and collects the paths that were asked for."""

    def __init__(self, text: str = "") -> None:
        self.text = text
        self.paths: set[str] = set()

    def __enter__(self) -> Self:
        lists = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                lists.paths.add(self.path)
                self.send_response(200)
                self.end_headers()
                self.wfile.write(lists.text.encode())

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.domain = f"127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
