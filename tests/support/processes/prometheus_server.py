"""A real Prometheus on loopback, from Debian's package, over the repository's rules."""

from __future__ import annotations

import json
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.monitoring_files import ALERTS
from tests.support.ports import free_port
from tests.support.tools import need
from tests.support.waiting import wait_until

CONFIG = """\
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: ["{rules}"]
scrape_configs:
  - job_name: skyrocket
    static_configs: [{{targets: [{targets}]}}]
"""


class Prometheus:
    def __init__(self, port: int) -> None:
        self._port = port

    def get(self, path: str, **parameters: str) -> Any:
        """The data of an answer of its HTTP API."""
        url = f"http://127.0.0.1:{self._port}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(url, timeout=60) as answer:
            body = json.load(answer)
        assert body["status"] == "success", body
        return body["data"]

    def query(self, expression: str) -> list[Any]:
        found: list[Any] = self.get("query", query=expression)["result"]
        return found

    def is_up(self) -> bool:
        try:
            self.get("status/runtimeinfo")
        except OSError:
            return False
        return True


@contextmanager
def prometheus_server(folder: Path, targets: list[str]) -> Iterator[Prometheus]:
    need("prometheus", "promtool")
    port = free_port()
    config = folder / "prometheus.yml"
    config.write_text(CONFIG.format(rules=ALERTS, targets=", ".join(f'"{target}"' for target in targets)))
    subprocess.run(["promtool", "check", "config", str(config)], check=True, capture_output=True)
    flags = [f"--config.file={config}", f"--storage.tsdb.path={folder / 'tsdb'}", f"--web.listen-address=127.0.0.1:{port}"]
    with (folder / "prometheus.log").open("wb") as log:
        server = subprocess.Popen(["prometheus", *flags], stdout=log, stderr=log, cwd=folder)
    try:
        running = Prometheus(port)
        wait_until(lambda: server.poll() is not None or running.is_up(), "Prometheus comes up")
        assert server.poll() is None, (folder / "prometheus.log").read_text()[-2000:]
        yield running
    finally:
        server.terminate()
        server.wait()
