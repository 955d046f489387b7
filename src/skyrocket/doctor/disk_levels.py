"""What a broker does as its disk fills up, and what to do about it: rules that a cluster and a store directory share. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from skyrocket.doctor.finding import Symptom

CLEAN_SETTING: Final = "diskSpaceCleanForciblyRatio"
REFUSE_SETTING: Final = "diskSpaceWarningLevelRatio"
CLEAN_DEFAULT: Final = 85.0  # Apache's defaults, and ours
REFUSE_DEFAULT: Final = 90.0
MARGIN: Final = 5.0  # percent below the next level, where a warning is due
_MAKE_ROOM: Final = (
    "Make room, add disk, or keep messages for a shorter time: skyrocket config set BROKER fileReservedTime=48. "
    "Archive first what you still need: skyrocket pipeline archive TOPIC --to FOLDER."
)


class DiskLevels(NamedTuple):
    """How full a broker's disk is, the fuller one if it has two, and the levels at which it acts; in percent."""

    used: float
    deletes_unexpired: float = CLEAN_DEFAULT
    refuses: float = REFUSE_DEFAULT

    @property
    def next_level(self) -> float:
        return min(self.deletes_unexpired, self.refuses)


def find_full_disk(about: str, levels: DiskLevels) -> Iterator[Symptom]:
    if levels.used >= levels.refuses:
        yield Symptom(
            about,
            "The disk is full: the broker refuses messages with SERVICE_NOT_AVAILABLE.",
            f"{levels.used:.0f} % used; from {levels.refuses:.0f} % on ({REFUSE_SETTING}) it takes no messages.",
            f"{_MAKE_ROOM} The broker takes messages again by itself.",
        )


def find_early_delete(about: str, levels: DiskLevels) -> Iterator[Symptom]:
    if levels.used >= levels.deletes_unexpired:
        yield Symptom(
            about,
            "The disk is so full that the broker deletes the oldest messages before their time, also unread ones.",
            f"{levels.used:.0f} % used; from {levels.deletes_unexpired:.0f} % on ({CLEAN_SETTING}) it deletes them.",
            _MAKE_ROOM,
        )


def find_filling_disk(about: str, levels: DiskLevels) -> Iterator[Symptom]:
    if levels.next_level - MARGIN <= levels.used < levels.next_level:
        yield Symptom(
            about,
            "The disk fills up: soon the broker deletes messages before their time, or refuses new ones.",
            f"{levels.used:.0f} % used; the broker acts at {levels.next_level:.0f} %.",
            _MAKE_ROOM,
        )
