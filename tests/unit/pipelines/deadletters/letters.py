"""Dead letters for tests."""

from __future__ import annotations

from typing import Any

from skyrocket.pipelines.deadletters.letters import DeadLetter

NOW_MS = 1_800_000_000_000


def letter(number: int = 0, **fields: Any) -> DeadLetter:
    values: dict[str, Any] = {
        "topic": "%DLQ%coupons",
        "broker_name": "broker-a",
        "queue_id": 0,
        "queue_offset": number,
        "log_offset": 1_000 + number,
        "origin_topic": "orders",
        "died_ms": NOW_MS - 1_000,
        "born_ms": NOW_MS - 9_000,
        "message_id": f"M{number}",
        "tag": "paid",
        "keys": (f"o-{number}",),
        "retries": 16,
        "properties": {},
        "body": b"body %d" % number,
    }
    return DeadLetter(**{**values, **fields})
