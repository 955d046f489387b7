"""The alert rules and the dashboard in `monitoring/`: their expressions, and the metrics that these name."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).resolve().parents[2] / "monitoring"
ALERTS = FOLDER / "alerts.yml"
DASHBOARD = FOLDER / "grafana-dashboard.json"

_RULE = re.compile(r"- alert: (\w+)\n\s+expr: (.+)\n(?:.+\n)*?\s+labels: \{severity: (\w+)\}\n(?:.+\n)*?\s+runbook: (\S+)\n")
_METRIC = re.compile(r"\b((?:rocketmq|skyrocket|process)_[a-z0-9_]+)")
_VARIABLES = {"$__rate_interval": "1m", "$cluster": ".*", "$broker": ".*"}


class Alert(NamedTuple):
    name: str
    expression: str
    severity: str
    runbook: str


def alerts() -> list[Alert]:
    found = [Alert(*rule) for rule in _RULE.findall(ALERTS.read_text())]
    assert len(found) == ALERTS.read_text().count("- alert: "), "every rule has an expression and a runbook, one line each"
    return found


def panels() -> dict[str, list[str]]:
    """The expressions of each panel of the dashboard, with values for its variables."""
    board: dict[str, Any] = json.loads(DASHBOARD.read_text())
    return {
        panel["title"]: [_with_values(target["expr"]) for target in panel["targets"]]
        for panel in board["panels"]
        if panel["type"] != "row"
    }


def variables() -> list[str]:
    """The queries behind the dashboard's variables."""
    board: dict[str, Any] = json.loads(DASHBOARD.read_text())
    return [one["query"]["query"] for one in board["templating"]["list"] if one["type"] == "query"]


def _with_values(expression: str) -> str:
    for name, value in _VARIABLES.items():
        expression = expression.replace(name, value)
    assert "$" not in expression, expression
    return expression


def metrics_in(expression: str) -> set[str]:
    """The families that an expression names: a histogram's series without their endings."""
    return {re.sub(r"_(bucket|count|sum)$", "", name) for name in _METRIC.findall(expression)}
