"""The topics and groups of a run of the demo, and the removal of those that a killed run left.

signup-67a3c0d51f2e          topic; its number says when the run has ended at the latest, then what no other run draws
signup-67a3c0d51f2e-steps    topic
signup-67a3c0d51f2e-sms      group, and so on
"""

from __future__ import annotations

import logging
import re
import secrets
from collections.abc import Iterable
from typing import Final, NamedTuple, Self

from skyrocket.client import Admin, ClientError, NoRouteError, NotFoundError
from skyrocket.protocol.system_names import DEAD_LETTER_PREFIX, RETRY_PREFIX

RUN_S_MAX: Final = 1_800  # beyond the load: the start of Spark, services that catch up, the audit; and clocks that differ
_NAME: Final = re.compile(r"signup-([0-9a-f]{8})[0-9a-f]{4}(-[a-z-]+)?")

log = logging.getLogger(__name__)


class DemoNames(NamedTuple):
    """The topics and groups of one run, which no other run has."""

    run: str

    @classmethod
    def draw(cls, now_s: float, load_s: float) -> Self:
        """Draw the names of a run that begins now."""
        return cls(f"{int(now_s + load_s) + RUN_S_MAX:08x}{secrets.token_hex(2)}")

    @property
    def topic(self) -> str:
        return f"signup-{self.run}"

    @property
    def steps_topic(self) -> str:
        return f"signup-{self.run}-steps"

    def group(self, name: str) -> str:
        return f"signup-{self.run}-{name}"


def find_leftovers(names: Iterable[str], now_s: float) -> list[str]:
    """Return the names of topics or groups of runs that must have ended by now."""
    found = ((name, _NAME.fullmatch(name)) for name in names)
    return [name for name, match in found if match is not None and int(match[1], 16) < now_s]


async def remove_leftovers(admin: Admin, now_s: float) -> list[str]:
    """Delete the topics and groups of runs that were killed. Returns their names.

    What the cluster refuses stays, and so does a run that may still go on.
    """
    all_topics = await admin.topics.names(internal=True)
    of_groups = {
        name.removeprefix(prefix)
        for prefix in (RETRY_PREFIX, DEAD_LETTER_PREFIX)
        for name in all_topics
        if name.startswith(prefix)
    }
    groups = find_leftovers({*of_groups, *await admin.groups.names()}, now_s)
    topics = find_leftovers(all_topics, now_s)
    removed = []
    for name, is_topic in [*((topic, True) for topic in topics), *((group, False) for group in groups)]:
        try:
            await remove(admin, name, is_topic=is_topic)
        except ClientError as error:
            log.warning("'%s' of a demo that was killed cannot be deleted: %s", name, error)
        else:
            removed.append(name)
    return removed


async def remove(admin: Admin, name: str, *, is_topic: bool) -> None:
    """Delete a topic; or a group, with its retry topic and its dead letters. It is no error if it is not there."""
    try:
        if is_topic:
            await admin.topics.delete(name)
        else:
            await admin.groups.delete(name, topics=True)
    except (NoRouteError, NotFoundError):
        return
