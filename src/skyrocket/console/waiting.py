"""Messages that wait for their time: what the runtime figures of a broker tell of delay levels and timers. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

_LEVEL: Final = "scheduleMessageOffset_"
DELAYS_DEFAULT: Final = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"


class WaitingLevel(NamedTuple):
    level: int
    delay: str  # such as 10s
    waiting: int
    delivered: int  # up to this offset of the level's queue


class TimerState(NamedTuple):
    waiting: int
    unread: int  # stored and not in the timer wheel yet
    late_s: int


def read_levels(runtime: Mapping[str, str], settings: Mapping[str, str]) -> list[WaitingLevel]:
    """Return the delay levels that were ever used, from the figures of a broker: `scheduleMessageOffset_3` is `delivered,end`."""
    delays = (settings.get("messageDelayLevel") or DELAYS_DEFAULT).split()
    levels = []
    for name, value in runtime.items():
        number, (delivered, _, end) = name.removeprefix(_LEVEL), value.partition(",")
        if not name.startswith(_LEVEL) or not (number.isdigit() and delivered.isdigit() and end.isdigit()):
            continue
        level = int(number)
        delay = delays[level - 1] if 0 < level <= len(delays) else "?"
        levels.append(WaitingLevel(level, delay, max(0, int(end) - int(delivered)), int(delivered)))
    return sorted(levels)


def read_timers(runtime: Mapping[str, str]) -> TimerState | None:
    """Return what waits in the timer wheel; None when the broker does not tell, because it has none."""
    names = ("timerCongestNum", "timerOffsetBehind", "timerReadBehind")
    if not any(name in runtime for name in names):
        return None
    return TimerState(*(int(text) if (text := runtime.get(name, "")).isdigit() else 0 for name in names))
