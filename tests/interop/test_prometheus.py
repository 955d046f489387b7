"""A real Prometheus scrapes our servers, loads the alert rules, and evaluates every expression of rules and dashboard."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.support.monitoring_files import ALERTS, FOLDER, alerts, panels
from tests.support.ports import free_port
from tests.support.processes.http_client import ask
from tests.support.processes.prometheus_server import prometheus_server
from tests.support.processes.skyrocket_process import SkyrocketBroker, SkyrocketNameserver
from tests.support.tools import need
from tests.support.waiting import wait_until

PROM = {"metricsExporterType": "PROM"}


def test_the_rules_and_the_example_are_valid():
    need("promtool")
    for command in (["check", "rules", str(ALERTS)], ["check", "config", str(FOLDER / "prometheus.yml")]):
        done = subprocess.run(["promtool", *command], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_prometheus_scrapes_servers_and_evaluates_rules_and_dashboard(tmp_path: Path):
    need("prometheus", "promtool")
    ports = [free_port(), free_port()]
    with (
        SkyrocketNameserver(tmp_path / "names", {**PROM, "metricsPromExporterPort": ports[0]}) as names,
        SkyrocketBroker(tmp_path / "broker", names.nameserver, {**PROM, "metricsPromExporterPort": ports[1]}),
        prometheus_server(tmp_path, [f"127.0.0.1:{port}" for port in ports]) as prometheus,
    ):
        page = ask(ports[1], "/metrics").text
        linted = subprocess.run(["promtool", "check", "metrics"], input=page, capture_output=True, text=True, check=False)
        assert "error while linting" not in linted.stderr, linted.stderr
        assert "parsing" not in linted.stderr, linted.stderr

        wait_until(lambda: len(prometheus.query("up == 1")) == 2, "both servers are scraped")
        rules = prometheus.get("rules")["groups"][0]["rules"]
        assert [rule["name"] for rule in rules] == [alert.name for alert in alerts()]
        wait_until(
            lambda: all(rule["health"] == "ok" for rule in prometheus.get("rules")["groups"][0]["rules"]),
            lambda: str([rule for rule in prometheus.get("rules")["groups"][0]["rules"] if rule["health"] != "ok"]),
        )
        for expressions in panels().values():
            for expression in expressions:
                prometheus.query(expression)  # an expression that is wrong is an error
        assert prometheus.query("skyrocket_store_writable")[0]["value"][1] == "1"
        assert prometheus.query("sum(skyrocket_nameserver_brokers)")[0]["value"][1] == "1"
        firing = [alert["labels"]["alertname"] for alert in prometheus.get("alerts")["alerts"] if alert["state"] == "firing"]
        assert firing == []


def test_a_server_that_is_gone_and_a_store_that_refuses_messages_raise_their_alerts(tmp_path: Path):
    """`for` of these rules is a minute: that they are pending says that their expressions hold."""
    need("prometheus", "promtool")
    ports = [free_port(), free_port()]
    full = {"diskMaxUsedSpaceRatio": 10, "diskSpaceCleanForciblyRatio": 10, "diskSpaceWarningLevelRatio": 10}
    with (
        SkyrocketNameserver(tmp_path / "names") as names,
        SkyrocketBroker(tmp_path / "broker", names.nameserver, {**PROM, **full, "metricsPromExporterPort": ports[1]}),
        prometheus_server(tmp_path, [f"127.0.0.1:{port}" for port in ports]) as prometheus,
    ):

        def raised() -> set[str]:
            return {alert["labels"]["alertname"] for alert in prometheus.get("alerts")["alerts"]}

        wait_until(lambda: {"ServerDown", "StoreRefusesMessages", "DiskFillsUp"} <= raised(), lambda: f"alerts: {raised()}")
        assert ask(ports[1], "/readyz").status == 503
