"""Dashboard, alert rules and documents name metrics that servers export, and the documents name all of them."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from skyrocket.broker.load.counters import SIZE_BOUNDS
from skyrocket.broker.metrics.rpc_latency import BOUNDS_MS
from skyrocket.nameserver.nameserver import Nameserver
from skyrocket.nameserver.settings import NameserverSettings
from skyrocket.settings.metrics import MetricsExporter
from tests.support.brokers.running_broker import running
from tests.support.golden import GOLDEN
from tests.support.monitoring_files import alerts, metrics_in, panels, variables
from tests.support.processes.http_client import Page, scrape

ROOT = Path(__file__).resolve().parents[4]
ON = {"metrics_exporter": MetricsExporter.PROM, "metrics_port": 0}
ROW = re.compile(r"^\| `((?:rocketmq|skyrocket|process)_\w+)` \| (\w+) \|([^|]*)\|", re.MULTILINE)


async def exported(folder: Path) -> dict[str, str]:
    """The metrics of a running broker and a running nameserver, with their types."""
    places = {"kv_config_path": folder / "kv.json", "config_store_path": folder / "conf"}
    names = Nameserver(replace(NameserverSettings(), listen_port=0, **places, **ON))
    await names.start()
    async with running(folder, **ON) as served:
        assert served.broker.monitoring is not None
        assert names.monitoring is not None
        pages: list[Page] = [await scrape(served.broker.monitoring.port), await scrape(names.monitoring.port)]
    await names.close()
    return pages[1].types | pages[0].types


async def test_every_metric_of_the_dashboard_and_of_the_rules_is_exported(tmp_path: Path):
    known = set(await exported(tmp_path))
    used = {f"alert {alert.name}": metrics_in(alert.expression) for alert in alerts()}
    used |= {f"panel {title}": metrics_in(" ".join(expressions)) for title, expressions in panels().items()}
    used |= {query: metrics_in(query) for query in variables()}
    assert len(used) > 35
    assert {place: names - known for place, names in used.items() if names - known} == {}


async def test_the_document_has_every_metric_with_its_type(tmp_path: Path):
    documented = {name: kind for name, kind, _ in ROW.findall((ROOT / "docs/metrics.md").read_text())}
    assert documented == await exported(tmp_path)


async def test_every_name_of_apaches_page_is_exported_or_its_absence_explained(tmp_path: Path):
    theirs = set(re.findall(r"^# TYPE (\w+)", (GOLDEN / "broker_metrics.txt").read_text(), re.MULTILINE))
    assert len(theirs) > 40
    ours = set(await exported(tmp_path))
    rows = (ROOT / "docs/metrics.md").read_text().split("| not there |")[1].split("\n## ")[0].splitlines()
    explained = {name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[1] if row.startswith("|") else "")}
    assert explained == theirs - ours


def test_histograms_of_apaches_page_have_the_same_bounds():
    page = (GOLDEN / "broker_metrics.txt").read_text()
    for name, bounds in {"rocketmq_rpc_latency_milliseconds": BOUNDS_MS, "rocketmq_message_size": SIZE_BOUNDS}.items():
        found = re.findall(rf'^{name}_bucket{{.*,le="([0-9.]+)"}}', page, re.MULTILINE)
        assert {float(bound) for bound in found} == set(map(float, bounds)), name


def test_labels_in_the_document_are_those_of_the_families():
    from skyrocket.broker.metrics import connections, lag, replicas, rpc_latency, storage, traffic, waiting
    from skyrocket.metrics import process, turn_times
    from skyrocket.metrics.family import Family
    from skyrocket.nameserver import monitoring

    modules = [connections, lag, replicas, rpc_latency, storage, traffic, waiting, process, turn_times, monitoring]
    families = [value for module in modules for value in vars(module).values() if isinstance(value, Family)]
    before = ""
    documented: dict[str, list[str]] = {}
    for name, _, cell in ROW.findall((ROOT / "docs/metrics.md").read_text()):
        before = re.sub(r"\([^)]*\)", "", cell).replace("the same", before).replace(" and ", "").strip()
        documented[name] = sorted(label.strip() for label in before.split(",") if label.strip())
        if "the same, and topic" in cell:
            before = "storage_type, storage_medium"
    assert {family.name: sorted(family.labels) for family in families} == {
        name: labels for name, labels in documented.items() if name != "skyrocket_metrics_build_seconds"
    }


def test_every_alert_has_its_section_in_the_operations_guide():
    guide = (ROOT / "docs/operations.md").read_text()
    sections = re.findall(r"^### (\w+)\n\n\S", guide, re.MULTILINE)
    assert [alert.name for alert in alerts()] == sections
    for alert in alerts():
        assert alert.runbook == f"docs/operations.md#{alert.name.lower()}"
