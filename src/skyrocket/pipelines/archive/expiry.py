"""When messages are archived so late that retention may delete the next ones before. Pure."""

from __future__ import annotations

from typing import Final

from skyrocket.report.texts import format_duration

NEAR_SHARE: Final = 0.5  # of the time that brokers keep messages: one failed run later, they may be gone


def is_near_expiry(waited_ms: int, reserved_ms: int | None) -> bool:
    """Whether messages that have waited for so long are near their deletion."""
    return reserved_ms is not None and waited_ms >= NEAR_SHARE * reserved_ms


def expiry_sentences(waited_ms: int, reserved_ms: int | None) -> tuple[str, str, str]:
    """Return what is wrong, the evidence, and what to do about messages that are archived late."""
    return (
        "Messages wait too long until they are archived.",
        f"The oldest had waited {format_duration(waited_ms)}; a broker deletes messages after {format_duration(reserved_ms)}.",
        "Run the archive more often or with --follow, or raise fileReservedTime.",
    )
