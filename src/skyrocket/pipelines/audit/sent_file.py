"""What producers say that they sent: JSON lines, with which the audit also finds messages missing at the end of a stream.

    {"producer": "b1c2…", "topic": "orders", "brokerName": "broker-a", "queueId": 0, "last": 1200}

`Producer.stamped()` returns these figures; `sent_lines` writes them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from skyrocket.client.queues import Queue
from skyrocket.pipelines.audit.findings import StreamKey
from skyrocket.pipelines.errors import ArgumentError

STREAMS_MAX: Final = 1_000_000


def sent_lines(producer: str, counts: Mapping[Queue, int]) -> Iterable[str]:
    """Return the lines for one producer."""
    for queue, last in sorted(counts.items()):
        place = {"topic": queue.topic, "brokerName": queue.broker_name, "queueId": queue.queue_id}
        yield json.dumps({"producer": producer, **place, "last": last})


def parse_sent(lines: Iterable[str], name: str = "The file") -> dict[StreamKey, int]:
    """Parse lines. Of two lines about one stream, the higher number counts."""
    found: dict[StreamKey, int] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            key = StreamKey(str(row["producer"]), Queue(str(row["topic"]), str(row["brokerName"]), int(row["queueId"])))
            found[key] = max(found.get(key, 0), int(row["last"]))
        except (ValueError, KeyError, TypeError) as error:
            raise ArgumentError(
                f"{name}, line {number}, does not say what a producer sent. It needs producer, topic, brokerName, queueId and "
                "last."
            ) from error
        if len(found) > STREAMS_MAX:
            raise ArgumentError(f"{name} has more than {STREAMS_MAX:,} streams.")
    return found


def read_sent(path: Path) -> dict[StreamKey, int]:
    """Read a file of what producers sent."""
    try:
        with path.open(encoding="utf-8") as file:
            return parse_sent(file, str(path))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ArgumentError(f"{path} cannot be read: {reason}.") from error
