"""The offsets that a stream keeps in its checkpoint for a batch: the end of each queue, and the start where it is not implied.

    {"orders": {"broker-a:0": 120, "broker-a:1": 95}}                                  most batches
    {"orders": {"broker-a:0": 20}, "$from": {"orders": {"broker-a:0": 7}}}             a query's first batch

Spark keeps only the end of a batch, since a batch starts where the last one ended. In three cases it does not:

- the first batch of a query starts where "latest" or a timestamp was when the query started;
- a queue that was created while the query ran starts at the first offset that it had then;
- after a data loss that the options allow, a queue continues at another offset.

After a crash, Spark repeats a batch, and the repeated batch must read the same messages. So these starts are kept beside the end,
under a key that no topic can have.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from skyrocket.client.queues import Queue
from skyrocket.spark.errors import OffsetsError
from skyrocket.spark.options.offset_json import offsets_json, parse_offsets_json

FROM: Final = "$from"


@dataclass(frozen=True, slots=True)
class StreamOffsets:
    ends: Mapping[Queue, int]
    explicit_starts: Mapping[Queue, int] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Return the JSON object for the checkpoint, in a fixed order: Spark compares it as text."""
        found: dict[str, Any] = dict(offsets_json(self.ends))
        if self.explicit_starts:
            found[FROM] = offsets_json(self.explicit_starts)
        return found

    def starts(self, last: StreamOffsets) -> dict[Queue, int]:
        """Return where a batch with these ends starts. `last` is the end of the batch before it."""
        starts = {**last.ends, **self.explicit_starts}
        for queue in sorted(self.ends):
            if queue not in starts:
                raise OffsetsError(f"The checkpoint has the end of a batch in {queue}, but no start. It has been edited.")
        return {queue: starts[queue] for queue in self.ends}


def parse_stream_offsets(found: Any) -> StreamOffsets:
    """Parse the JSON object of a checkpoint. Raise OffsetsError if this source did not write it."""
    if not isinstance(found, Mapping):
        return StreamOffsets(parse_offsets_json(found))
    ends = {key: value for key, value in found.items() if key != FROM}
    return StreamOffsets(parse_offsets_json(ends), parse_offsets_json(found.get(FROM, {})))
