"""Every rule has its section in docs/doctor.md, where a finding's link leads."""

from __future__ import annotations

import re
from pathlib import Path

from skyrocket.doctor.backlog import rules as backlog
from skyrocket.doctor.cluster import rules as cluster
from skyrocket.doctor.finding import Diagnosis
from skyrocket.doctor.machine import rules as machine
from skyrocket.doctor.store import rules as store
from skyrocket.report.parts import Severity

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "doctor.md"


def test_each_rule_has_a_section_and_each_section_a_rule():
    sections = re.findall(r"^### (\S+)$", DOCUMENT.read_text(), re.MULTILINE)
    names = {rule.name for rules in (cluster.RULES, store.RULES, machine.RULES, backlog.RULES) for rule in rules}
    assert len(sections) == len(set(sections))
    assert set(sections) == names


def test_a_finding_links_to_its_section():
    assert Diagnosis("wrong-tag", Severity.PROBLEM, "", "", "", "").page == "docs/doctor.md#wrong-tag"
