"""What is wrong with a store directory. Pure: a table of rules over its facts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from skyrocket.doctor.disk_levels import find_early_delete, find_filling_disk, find_full_disk
from skyrocket.doctor.finding import Diagnosis, DoctorRule, Symptom, apply_rules, list_names, one_symptom
from skyrocket.doctor.store.facts import CheckpointFacts, StoreFacts
from skyrocket.report.parts import Severity
from skyrocket.report.texts import count_of, format_bytes, format_duration, format_moment, format_number

BEHIND_MS_MAX: Final = 600_000  # Apache writes its checkpoint with each flush of the queues, after a minute at most


def _about(facts: StoreFacts) -> str:
    return facts.about


_find_unclear_layout = one_symptom(
    _about,
    lambda facts: facts.layout_error or None,
    "The directory has logs of two kinds, or of several nodes: a broker that starts here may serve the wrong one.",
    "Decide which log has the messages that you need, and move the other one away. A node of a DLedger group starts with "
    "enableDLegerCommitLog=true and its dLegerSelfId, any other broker without.",
)


def _find_damage(facts: StoreFacts) -> Iterator[Symptom]:
    verified = facts.verified
    if verified is not None and verified.count:
        more = f" And {verified.count - len(verified.findings)} more." if verified.count > len(verified.findings) else ""
        yield Symptom(
            facts.about,
            f"The store does not fit together: {count_of(verified.count, 'finding')} among "
            f"{format_number(verified.messages)} messages.",
            f"{' '.join(verified.findings)}{more}",
            "skyrocket store verify DIR lists all. skyrocket store repair DIR, or a start of our broker, builds queues and index "
            "again, sets damaged bytes aside and keeps everything else. A replica has what is lost here. Look at the disk "
            "(smartctl, dmesg).",
        )


_find_damage_set_aside = one_symptom(
    _about,
    lambda facts: _tell_files(facts.damaged_files, "damaged"),
    "Recovery has found damaged bytes in the log and set them aside. The messages in them are not served.",
    "Compare with a replica or an archive what is missing. Delete the files when you need them no more.",
)
_find_diverged = one_symptom(
    _about,
    lambda facts: _tell_files(facts.diverged_files, "diverged"),
    "This replica had messages that its master had not, and set them aside.",
    "They were never confirmed by the master that went on, or it had lost them. They are kept for 30 days.",
)
_find_failed_flush = one_symptom(
    _about,
    lambda facts: (
        "The file sync_failed is there; the next start reads back what is not certainly on disk, then removes it."
        if facts.has_failed_flush
        else None
    ),
    "The disk returned an error when the broker flushed. The broker stopped taking messages.",
    "Look at the kernel's log (dmesg) and do not trust that disk. Replace it if need be, then start the broker.",
)
_find_unclean_shutdown = one_symptom(
    _about,
    lambda facts: (
        "The file abort is there, and no broker has the directory open." if facts.has_abort_file and not facts.is_locked else None
    ),
    "The broker did not stop cleanly: it was killed, or the machine failed.",
    "Start the broker: it recovers by itself, and says what it found. Find out why it ended: the end of its log, and the "
    "kernel's log for 'Out of memory'.",
)
_find_checkpoint_behind = one_symptom(
    _about,
    lambda facts: _tell_behind(facts.checkpoint) if facts.checkpoint is not None and not facts.is_locked else None,
    "The checkpoint is behind the log: the next start reads the rest of the log again before it serves.",
    "Nothing is lost by it. Start the broker, and give it time; /readyz says when it is ready.",
)
_find_kept_too_long = one_symptom(
    _about,
    lambda facts: _tell_expired(facts) if facts.expired_segments else None,
    "Old files were not deleted: all of their messages are older than the retention.",
    "A running broker deletes them at deleteWhen. Is it stopped, or does its broker.conf say another fileReservedTime?",
)
_find_not_verified = one_symptom(
    _about,
    lambda facts: f"It has {format_bytes(facts.log_bytes)}." if facts.verified is None and not facts.layout_error else None,
    "The log is too large to be checked in passing, so damage in it was not looked for.",
    "skyrocket store verify DIR reads all of it, and may run beside a broker.",
)


def _tell_files(names: Sequence[str], directory: str) -> str | None:
    return f"{count_of(len(names), 'file')} in {directory}/: {list_names(names)}." if names else None


def _tell_behind(checkpoint: CheckpointFacts) -> str | None:
    behind = checkpoint.behind_bytes
    if behind:
        said, end = format_number(checkpoint.safe_end or 0), format_number(checkpoint.log_end)
        return f"It says {said}; the log goes to {end}: {format_bytes(behind)} more."
    if behind is None and checkpoint.behind_ms > BEHIND_MS_MAX:
        moment, younger = format_moment(checkpoint.queued_ms), format_duration(checkpoint.behind_ms)
        return f"Queues are certainly complete up to {moment}; the newest message is {younger} younger."
    return None


def _tell_expired(facts: StoreFacts) -> str:
    return (
        f"{count_of(len(facts.expired_segments), 'segment')} of {format_bytes(facts.log_bytes)} in all; the oldest got its "
        f"last message {format_duration(facts.now_ms - facts.oldest_ms)} ago; messages are kept for {facts.kept_hours} h."
    )


RULES: Final[tuple[DoctorRule[StoreFacts], ...]] = (
    DoctorRule("layout-unclear", Severity.PROBLEM, _find_unclear_layout),
    DoctorRule("store-damaged", Severity.PROBLEM, _find_damage),
    DoctorRule("flush-failed", Severity.PROBLEM, _find_failed_flush),
    DoctorRule("disk-full", Severity.PROBLEM, lambda facts: find_full_disk(facts.about, facts.disk)),
    DoctorRule("disk-deletes-early", Severity.PROBLEM, lambda facts: find_early_delete(facts.about, facts.disk)),
    DoctorRule("disk-fills", Severity.WARNING, lambda facts: find_filling_disk(facts.about, facts.disk)),
    DoctorRule("unclean-shutdown", Severity.WARNING, _find_unclean_shutdown),
    DoctorRule("checkpoint-behind", Severity.WARNING, _find_checkpoint_behind),
    DoctorRule("damage-set-aside", Severity.WARNING, _find_damage_set_aside),
    DoctorRule("kept-too-long", Severity.WARNING, _find_kept_too_long),
    DoctorRule("diverged", Severity.INFORMATION, _find_diverged),
    DoctorRule("not-verified", Severity.INFORMATION, _find_not_verified),
)


def diagnose_store(facts: StoreFacts) -> list[Diagnosis]:
    return apply_rules(RULES, facts)
