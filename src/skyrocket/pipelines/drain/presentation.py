"""Shows drains and their proofs: as a document for programs, as rows for a terminal, as an HTML page. Pure."""

from __future__ import annotations

import shlex
from typing import Any, Final

import msgspec

from skyrocket.pipelines.drain.drain_record import REPLAYED, DrainRecord
from skyrocket.pipelines.drain.plan import EVERYTHING
from skyrocket.pipelines.drain.proof import DrainProof
from skyrocket.report.parts import Advice, BarChart, Note, ReportPage, ReportTable, Section, Severity, SummaryRow
from skyrocket.report.texts import count_of, format_number

PLAN_HEAD: Final = ("TOPIC", "BROKER", "QUEUE", "FROM", "TO", "WAITING")
DRAIN_HEAD: Final = ("TOPIC", "BROKER", "QUEUE", "FROM", "TO", "ARCHIVED", "SELECTED", "RESENT", "CONSUMED MEANWHILE")
PROOF_HEAD: Final = ("CHECK", "EXPECTED", "FOUND", "RESULT")
_CLUSTER_OPTIONS: Final = {"nameserver": "--namesrv", "addressServer": "--address-server", "namespace": "--namespace"}
RATE: Final = 500  # messages a second, of the command that the summary suggests


def replay_command(record: DrainRecord, folder: str) -> str:
    """Return the command that brings the drained messages back to the group, and to no other."""
    words = ["skyrocket", "pipeline", "replay", "--archive", folder, "--to-group", record.group]
    if record.conditions.replayed != EVERYTHING:
        words += ["--where", record.conditions.replayed]
    words += ["--rate", str(RATE), "--progress", f"{folder}/{REPLAYED}", *_cluster_words(record)]
    return shlex.join(words)


def prove_command(record: DrainRecord, folder: str) -> str:
    return shlex.join(["skyrocket", "pipeline", "drain", "--prove", folder, *_cluster_words(record)])


def _cluster_words(record: DrainRecord) -> list[str]:
    """Return the options that name the cluster. Credentials are not in a record: they come from the environment, or are added."""
    words = [
        word for name, option in _CLUSTER_OPTIONS.items() if name in record.cluster for word in (option, record.cluster[name])
    ]
    return [*words, *(["--tls"] if record.cluster.get("tls") == "true" else [])]


def plan_rows(record: DrainRecord) -> list[tuple[object, ...]]:
    """Return a row of PLAN_HEAD for each queue in which something waits."""
    return [
        (one.topic, one.broker, one.queue_id, one.start, one.stop, one.stop - one.start)
        for one in record.queues
        if one.stop > one.start
    ]


def drain_rows(record: DrainRecord) -> list[tuple[object, ...]]:
    """Return a row of DRAIN_HEAD for each queue from which something was drained."""
    return [
        (one.topic, one.broker, one.queue_id, one.start, one.stop, one.archived, one.selected, one.resent, _consumed(one))
        for one in record.queues
        if one.stop > one.start
    ]


def _consumed(one: Any) -> int:
    """Return how many of the archived messages members have consumed while the job ran: they are in the archive, too."""
    return 0 if one.passed_by is None else max(0, min(one.passed_by, one.stop) - one.start)


def drain_document(record: DrainRecord, folder: str, *, dry_run: bool = False) -> dict[str, Any]:
    """Return a drain as plain values."""
    found: dict[str, Any] = {"dryRun": dry_run, "folder": folder, **msgspec.to_builtins(record)}
    found["waiting"] = record.waiting
    if not dry_run:
        found |= {"archived": record.total("archived"), "replayed": record.total("selected"), "resent": record.total("resent")}
        found |= {"replayCommand": replay_command(record, folder), "proveCommand": prove_command(record, folder)}
    return found


def plan_sentence(record: DrainRecord, folder: str) -> str:
    """Say what a drain will do."""
    first = f"{count_of(record.waiting, 'message')} will be archived to {folder}, and group '{record.group}' moved past them."
    if record.conditions.selects_everything:
        return first
    return f"{first} Those for which {record.selected} does not hold will be resent to the group at once."


def drain_sentences(record: DrainRecord, folder: str) -> list[str]:
    """Say what a drain did, and how to bring the messages back."""
    if not record.waiting:
        return [f"Nothing waited for group '{record.group}'."]
    kept, resent = record.total("selected"), record.total("resent")
    lines = [f"{count_of(record.total('archived'), 'message')} archived in {folder}; group '{record.group}' was moved past them."]
    if resent:
        lines.append(f"{count_of(resent, 'message')} that were not selected are in the group's retry topic.")
    unwanted = record.total("archived") - kept - resent
    if unwanted:
        lines.append(f"{count_of(unwanted, 'message')} the group does not subscribe to.")
    meanwhile = sum(_consumed(one) for one in record.queues)
    if meanwhile:
        lines.append(f"{count_of(meanwhile, 'message')} were consumed while the job ran, and would come again with a replay.")
    return [
        *lines,
        f"To bring {count_of(kept, 'message')} back:\n    {replay_command(record, folder)}",
        f"To prove that nothing was lost:\n    {prove_command(record, folder)}",
    ]


def drain_page(record: DrainRecord, folder: str) -> ReportPage:
    """Lay out the page of a drain."""
    by_topic: dict[str, int] = {}
    for one in record.queues:
        by_topic[one.topic] = by_topic.get(one.topic, 0) + one.stop - one.start
    sections: list[Section] = [
        ReportTable("Queues", [name.lower() for name in DRAIN_HEAD], drain_rows(record), empty="Nothing waited."),
        BarChart("Drained by topic", [(topic, float(count)) for topic, count in sorted(by_topic.items())], unit="messages"),
        Note("What to do next", paragraphs=drain_sentences(record, folder)),
    ]
    summary = [
        SummaryRow("archived", format_number(record.total("archived")), "messages"),
        SummaryRow("to be replayed", format_number(record.total("selected")), "messages"),
        SummaryRow("resent at once", format_number(record.total("resent")), "messages"),
        SummaryRow("state", record.state),
    ]
    about = f"Begun {record.began} by {record.by}; moved {record.moved or 'not yet'}. Archive: {folder}."
    return ReportPage(f"Drain of {record.group} at {record.cluster_name}", summary, sections, about)


# --- the proof


def proof_rows(proof: DrainProof) -> list[tuple[object, ...]]:
    """Return a row of PROOF_HEAD for each check."""
    return [
        (f"{check.what} {check.note}".strip(), check.expected, check.found, "sound" if check.is_sound else "NOT SOUND")
        for check in proof.checks
    ]


def proof_sentences(proof: DrainProof) -> list[str]:
    if proof.is_sound:
        return ["Nothing was lost: every drained offset is where it should be, exactly once."]
    return proof.problems or ["The numbers differ."]


def proof_document(proof: DrainProof) -> dict[str, Any]:
    """Return a proof as plain values."""
    return {
        "folder": proof.folder,
        "group": proof.record.group,
        "isSound": proof.is_sound,
        "checks": [{**check._asdict(), "isSound": check.is_sound} for check in proof.checks],
        "problems": proof.problems,
    }


def proof_page(proof: DrainProof) -> ReportPage:
    """Lay out the page of a proof."""
    severity = Severity.GOOD if proof.is_sound else Severity.PROBLEM
    sections: list[Section] = [
        Note("Result", [Advice(severity, sentence) for sentence in proof_sentences(proof)]),
        ReportTable("Checks", [name.lower() for name in PROOF_HEAD], proof_rows(proof)),
    ]
    summary = [SummaryRow(check.what, format_number(check.found), f"of {check.expected:,}") for check in proof.checks]
    return ReportPage(f"Proof of the drain of {proof.record.group}", summary, sections, f"Archive: {proof.folder}.")
