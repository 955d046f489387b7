"""What a recovery found and did, and how it says so."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from skyrocket.store.log.scan import DamagedRange


class SetAsideRange(NamedTuple):
    """A damaged range of the log, and where its bytes are kept."""

    offset: int
    size: int
    kept: str


@dataclass(slots=True)
class RecoveryResult:
    """What recovery found and did. `sentences` says it in words."""

    after_crash: bool
    walked_from: int
    end: int = 0
    visible_end: int = 0  # messages from here on are in the log only
    messages: int = 0  # scanned
    cut_bytes: int = 0  # of a torn tail behind the end
    set_aside: list[SetAsideRange] = field(default_factory=list)
    last_timestamp: int = 0  # store time of the last message, 0 in an empty log
    last_offset: int = 0  # physical offset of the last visible message
    visible_timestamp: int = 0  # its store time
    safe_end: int = 0  # the log was on disk up to here, by the checkpoint; 0 when it does not say
    rewritten_bytes: int = 0  # of the log, written again and read back from the disk after a failed sync
    is_foreign: bool = False  # closed, but by another program, whose queues are not trusted
    repeated: int = 0  # messages with the queue offset of an earlier one
    reindexed: int = 0  # entries of a DLedger log whose index was written again
    lost_after: int | None = None  # the last entry of a DLedger log whose confirmed end is lost
    unfilled: list[DamagedRange] = field(default_factory=list)  # an end of the log that is lost, and had to be cut

    def sentences(self) -> list[str]:
        sentences = []
        if self.after_crash:
            why = "Another program has written the store" if self.is_foreign else "The store was not closed"
            sentences.append(f"{why}; {self.messages} messages were read again, from {self.walked_from} on.")
        if self.repeated:
            sentences.append(
                f"{self.repeated} messages have queue offsets that earlier ones have: they are in the log, and in no queue."
            )
        if self.cut_bytes:
            sentences.append(f"A torn tail of {self.cut_bytes} bytes at {self.end} was cut off: it was never acknowledged.")
        if self.rewritten_bytes:
            sentences.append(f"A sync had failed; {self.rewritten_bytes} bytes of the log were written again and read back.")
        for damage in self.set_aside:
            flushed = not self.safe_end or damage.offset < self.safe_end
            what = "DAMAGE" if flushed else "Lost in the crash, never flushed"
            sentences.append(
                f"{what}: {damage.size} bytes of the log at {damage.offset} cannot be read. They are kept in {damage.kept}."
            )
        if self.reindexed:
            sentences.append(f"The index of the ledger was written again for {self.reindexed} entries.")
        if self.lost_after is not None:
            sentences.append(
                f"DAMAGE: confirmed entries behind {self.lost_after} are lost here. The node gets them from its group; "
                f"until then its vote counts only if all nodes agree."
            )
        for lost in self.unfilled:
            sentences.append(
                f"DAMAGE: {lost.size} bytes of the log at {lost.offset} were on disk and are lost. The log ends there now; "
                f"the group must send them again."
            )
        return sentences
