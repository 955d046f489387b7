"""What a stream keeps in its checkpoint for a batch: where it ended in each queue, and where it began in those that need it said.

    {"orders": {"broker-a:0": 120, "broker-a:1": 95}}                                  an ordinary batch
    {"orders": {"broker-a:0": 20}, "$from": {"orders": {"broker-a:0": 7}}}             a query's first batch

Spark keeps only the ends, since a batch begins where the last one ended. Three times that is not so, and a batch that is done
again after a crash has to read the same messages again: the first batch of a query begins where "latest" or a moment was when it
started; a queue that came while the query ran begins at what was its first offset then; and where messages are gone, and that is
allowed, a queue goes on somewhere else. So such a beginning is kept with the end that it belongs to, under a key that no
topic can have.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from skyrocket.client.queues import Queue
from skyrocket.spark.errors import OffsetsError
from skyrocket.spark.options.offset_json import offsets_json, offsets_of

FROM: Final = "$from"


@dataclass(frozen=True, slots=True)
class StreamOffsets:
    ends: Mapping[Queue, int]
    beginnings: Mapping[Queue, int] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Always in one order, as Spark compares it as text."""
        found: dict[str, Any] = dict(offsets_json(self.ends))
        if self.beginnings:
            found[FROM] = offsets_json(self.beginnings)
        return found

    def starts(self, last: StreamOffsets) -> dict[Queue, int]:
        """Where a batch with these ends begins, `last` being the end of the batch before it."""
        starts = {**last.ends, **self.beginnings}
        for queue in sorted(self.ends):
            if queue not in starts:
                raise OffsetsError(f"The checkpoint ends a batch in {queue}, but says nowhere where that begins; it was changed.")
        return {queue: starts[queue] for queue in self.ends}


def stream_offsets(found: Any) -> StreamOffsets:
    """From a checkpoint. OffsetsError for one that this source did not write."""
    if not isinstance(found, Mapping):
        return StreamOffsets(offsets_of(found))
    ends = {key: value for key, value in found.items() if key != FROM}
    return StreamOffsets(offsets_of(ends), offsets_of(found.get(FROM, {})))
