"""What is wrong with a store directory. Pure: a table of rules over its facts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from skyrocket.doctor.disk_levels import find_early_delete, find_filling_disk, find_full_disk
from skyrocket.doctor.finding import Diagnosis, DoctorRule, Symptom, apply_rules, list_names
from skyrocket.doctor.store.facts import StoreFacts
from skyrocket.report.parts import Severity
from skyrocket.report.texts import count_of, format_bytes, format_duration, format_moment, format_number

BEHIND_MS_MAX: Final = 600_000  # Apache writes its checkpoint with each flush of the queues, after a minute at most


def _unclear_layout(facts: StoreFacts) -> Iterator[Symptom]:
    if facts.layout_error:
        yield Symptom(
            facts.about,
            "The directory has logs of two kinds, or of several nodes: a broker that starts here may serve the wrong one.",
            facts.layout_error,
            "Decide which log has the messages that you need, and move the other one away. A node of a DLedger group starts with "
            "enableDLegerCommitLog=true and its dLegerSelfId, any other broker without.",
        )


def _damage(facts: StoreFacts) -> Iterator[Symptom]:
    verified = facts.verified
    if verified is not None and verified.count:
        more = f" And {verified.count - len(verified.findings)} more." if verified.count > len(verified.findings) else ""
        yield Symptom(
            facts.about,
            f"The store does not fit together: {count_of(verified.count, 'finding')} among "
            f"{format_number(verified.messages)} messages.",
            f"{' '.join(verified.findings)}{more}",
            "skyrocket store verify DIR lists all. Start a broker of ours over it: it builds queues and index again, sets "
            "damaged bytes aside and keeps everything else. A replica has what is lost here. Look at the disk (smartctl, dmesg).",
        )


def _damage_set_aside(facts: StoreFacts) -> Iterator[Symptom]:
    if facts.damaged_files:
        yield Symptom(
            facts.about,
            "Recovery has found damaged bytes in the log and set them aside. The messages in them are not served.",
            f"{count_of(len(facts.damaged_files), 'file')} in damaged/: {list_names(facts.damaged_files)}.",
            "Compare with a replica or an archive what is missing. Delete the files when you need them no more.",
        )


def _failed_flush(facts: StoreFacts) -> Iterator[Symptom]:
    if facts.has_failed_flush:
        yield Symptom(
            facts.about,
            "The disk returned an error when the broker flushed. The broker stopped taking messages.",
            "The file sync_failed is there; the next start reads back what is not certainly on disk, then removes it.",
            "Look at the kernel's log (dmesg) and do not trust that disk. Replace it if need be, then start the broker.",
        )


def _unclean_shutdown(facts: StoreFacts) -> Iterator[Symptom]:
    if facts.has_abort_file and not facts.is_locked:
        yield Symptom(
            facts.about,
            "The broker did not stop cleanly: it was killed, or the machine failed.",
            "The file abort is there, and no broker has the directory open.",
            "Start the broker: it recovers by itself, and says what it found. Find out why it ended: the end of its log, and the "
            "kernel's log for 'Out of memory'.",
        )


def _checkpoint_behind(facts: StoreFacts) -> Iterator[Symptom]:
    checkpoint = facts.checkpoint
    if checkpoint is None or facts.is_locked:
        return
    behind = checkpoint.behind_bytes
    if behind:
        evidence = f"It says {format_number(checkpoint.safe_end or 0)}; the log goes to {format_number(checkpoint.log_end)}: "
        evidence += f"{format_bytes(behind)} more."
    elif behind is None and checkpoint.behind_ms > BEHIND_MS_MAX:
        evidence = f"Queues are certainly complete up to {format_moment(checkpoint.queued_ms)}; the newest message is "
        evidence += f"{format_duration(checkpoint.behind_ms)} younger."
    else:
        return
    yield Symptom(
        facts.about,
        "The checkpoint is behind the log: the next start reads the rest of the log again before it serves.",
        evidence,
        "Nothing is lost by it. Start the broker, and give it time; /readyz says when it is ready.",
    )


def _kept_too_long(facts: StoreFacts) -> Iterator[Symptom]:
    if facts.expired_segments:
        yield Symptom(
            facts.about,
            "Old files were not deleted: all of their messages are older than the retention.",
            f"{count_of(len(facts.expired_segments), 'segment')} of {format_bytes(facts.log_bytes)} in all; the oldest got its "
            f"last message {format_duration(facts.now_ms - facts.oldest_ms)} ago; messages are kept for {facts.kept_hours} h.",
            "A running broker deletes them at deleteWhen. Is it stopped, or does its broker.conf say another fileReservedTime?",
        )


def _diverged(facts: StoreFacts) -> Iterator[Symptom]:
    if facts.diverged_files:
        yield Symptom(
            facts.about,
            "This replica had messages that its master had not, and set them aside.",
            f"{count_of(len(facts.diverged_files), 'file')} in diverged/: {list_names(facts.diverged_files)}.",
            "They were never confirmed by the master that went on, or it had lost them. They are kept for 30 days.",
        )


def _not_verified(facts: StoreFacts) -> Iterator[Symptom]:
    if facts.verified is None and not facts.layout_error:
        yield Symptom(
            facts.about,
            "The log is too large to be checked in passing, so damage in it was not looked for.",
            f"It has {format_bytes(facts.log_bytes)}.",
            "skyrocket store verify DIR reads all of it, and may run beside a broker.",
        )


RULES: Final[tuple[DoctorRule[StoreFacts], ...]] = (
    DoctorRule("layout-unclear", Severity.PROBLEM, _unclear_layout),
    DoctorRule("store-damaged", Severity.PROBLEM, _damage),
    DoctorRule("flush-failed", Severity.PROBLEM, _failed_flush),
    DoctorRule("disk-full", Severity.PROBLEM, lambda facts: find_full_disk(facts.about, facts.disk)),
    DoctorRule("disk-deletes-early", Severity.PROBLEM, lambda facts: find_early_delete(facts.about, facts.disk)),
    DoctorRule("disk-fills", Severity.WARNING, lambda facts: find_filling_disk(facts.about, facts.disk)),
    DoctorRule("unclean-shutdown", Severity.WARNING, _unclean_shutdown),
    DoctorRule("checkpoint-behind", Severity.WARNING, _checkpoint_behind),
    DoctorRule("damage-set-aside", Severity.WARNING, _damage_set_aside),
    DoctorRule("kept-too-long", Severity.WARNING, _kept_too_long),
    DoctorRule("diverged", Severity.INFORMATION, _diverged),
    DoctorRule("not-verified", Severity.INFORMATION, _not_verified),
)


def diagnose_store(facts: StoreFacts) -> list[Diagnosis]:
    return apply_rules(RULES, facts)
