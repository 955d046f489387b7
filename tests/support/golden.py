"""Frames that Apache RocketMQ 5.5.0 and its clients sent (tests/golden/README.md)."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

GOLDEN = Path(__file__).resolve().parents[1] / "golden"


class GoldenFrame(NamedTuple):
    server: str  # namesrv, broker, broker-vip
    direction: str  # to-server, from-server
    serialize: str  # JSON, ROCKETMQ
    kind: str  # request, response, oneway
    request_code: int  # of a response: the code that was asked
    header: dict[str, Any]  # as another decoder read it
    frame: bytes

    @property
    def name(self) -> str:
        return f"{self.request_code}-{self.kind}-{self.serialize}"


@cache
def golden_frames() -> tuple[GoldenFrame, ...]:
    rows = [json.loads(line) for line in (GOLDEN / "frames.jsonl").read_text().splitlines()]
    return tuple(
        GoldenFrame(
            row["server"],
            row["dir"],
            row["serialize"],
            row["kind"],
            row["request_code"],
            row["header"],
            bytes.fromhex(row["frame_hex"]),
        )
        for row in rows
    )
