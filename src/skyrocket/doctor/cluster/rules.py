"""The table of all rules about a cluster. A rule is a pure function from facts to symptoms; its name is its id for ever."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from skyrocket.doctor.backlog.rules import find_advice
from skyrocket.doctor.cluster import broker_rules, consumer_rules, replica_rules, route_rules
from skyrocket.doctor.cluster.facts import ClusterFacts
from skyrocket.doctor.finding import Diagnosis, DoctorRule, apply_rules
from skyrocket.report.parts import Severity

RULES: Final[tuple[DoctorRule[ClusterFacts], ...]] = (
    DoctorRule("no-broker", Severity.PROBLEM, route_rules.find_no_brokers),
    DoctorRule("broker-unreachable", Severity.PROBLEM, route_rules.find_unreachable_brokers),
    DoctorRule("broker-refuses", Severity.PROBLEM, route_rules.find_refusing_brokers),
    DoctorRule("no-master", Severity.PROBLEM, route_rules.find_missing_masters),
    DoctorRule("nameserver-silent", Severity.PROBLEM, route_rules.find_silent_nameservers),
    DoctorRule("nameservers-differ", Severity.PROBLEM, route_rules.find_differing_nameservers),
    DoctorRule("topic-missing", Severity.PROBLEM, route_rules.find_missing_topics),
    DoctorRule("topic-unreadable", Severity.PROBLEM, route_rules.find_unreadable_topics),
    DoctorRule("topic-unwritable", Severity.WARNING, route_rules.find_unwritable_topics),
    DoctorRule("topic-unbalanced", Severity.WARNING, route_rules.find_unbalanced_topics),
    DoctorRule("disk-full", Severity.PROBLEM, broker_rules.find_full_disks),
    DoctorRule("disk-deletes-early", Severity.PROBLEM, broker_rules.find_early_deletes),
    DoctorRule("disk-fills", Severity.WARNING, broker_rules.find_filling_disks),
    DoctorRule("log-damaged", Severity.PROBLEM, broker_rules.find_damaged_logs),
    DoctorRule("broker-busy", Severity.WARNING, broker_rules.find_busy_brokers),
    DoctorRule("broker-clock", Severity.WARNING, broker_rules.find_broker_clocks),
    DoctorRule("producer-clock", Severity.WARNING, broker_rules.find_producer_clocks),
    DoctorRule("slave-behind", Severity.PROBLEM, replica_rules.find_slaves_behind),
    DoctorRule("slave-missing", Severity.PROBLEM, replica_rules.find_missing_slaves),
    DoctorRule("node-behind", Severity.PROBLEM, replica_rules.find_nodes_behind),
    DoctorRule("node-behind", Severity.PROBLEM, replica_rules.find_followers_behind),
    DoctorRule("node-missing", Severity.PROBLEM, replica_rules.find_missing_nodes),
    DoctorRule("group-missing", Severity.PROBLEM, consumer_rules.find_missing_groups),
    DoctorRule("group-disabled", Severity.PROBLEM, consumer_rules.find_disabled_groups),
    DoctorRule("broadcast-forbidden", Severity.PROBLEM, consumer_rules.find_forbidden_broadcasts),
    DoctorRule("mixed-models", Severity.PROBLEM, consumer_rules.find_mixed_models),
    DoctorRule("sql-as-tag", Severity.PROBLEM, consumer_rules.find_sql_as_tags),
    DoctorRule("sql-filter-off", Severity.PROBLEM, consumer_rules.find_sql_without_filter),
    DoctorRule("wrong-tag", Severity.PROBLEM, consumer_rules.find_wrong_tags),
    DoctorRule("tag-not-seen", Severity.INFORMATION, consumer_rules.find_unseen_tags),
    DoctorRule("offset-beyond-end", Severity.PROBLEM, consumer_rules.find_offsets_beyond_the_end),
)
"""All rules beside those of the backlog, which follow them (`backlog/rules.py`)."""


def diagnose_cluster(facts: ClusterFacts) -> list[Diagnosis]:
    """Apply every rule, and those of the backlog."""
    return [*apply_rules(RULES, facts), *_diagnose_backlog(facts)]


def _diagnose_backlog(facts: ClusterFacts) -> Iterator[Diagnosis]:
    for found in find_advice(facts.backlog, facts.reserved_ms):
        about = f"group {found.group}" + (f", topic {found.topic}" if found.topic else "")
        yield Diagnosis(found.rule, found.severity, about, found.what, found.evidence, found.advice)
