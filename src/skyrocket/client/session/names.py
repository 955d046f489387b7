"""Which names of topics and groups are valid. `namespaces` adds and removes prefixes."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from skyrocket.client.errors import ConfigurationError, InvalidMessageError
from skyrocket.protocol.system_names import NOT_FOR_PRODUCERS

TOPIC_CHARACTERS_MAX: Final = 127
GROUP_CHARACTERS_MAX: Final = 120  # shorter than a topic: the names of retry topics add %RETRY%

_ALLOWED = re.compile(r"[%|a-zA-Z0-9_-]+")


@lru_cache(maxsize=4096)  # a producer sends to few topics; errors are not cached
def check_topic(topic: str) -> str:
    """Return the topic. Raise InvalidMessageError when no message can be sent to it."""
    if not topic.strip():
        raise InvalidMessageError("The topic is empty. A message needs a topic.")
    if len(topic) > TOPIC_CHARACTERS_MAX:
        raise InvalidMessageError(f"The topic's name has {len(topic)} characters; at most {TOPIC_CHARACTERS_MAX} are allowed.")
    if not _ALLOWED.fullmatch(topic):
        raise InvalidMessageError(f"{topic!r} is not a valid topic name. Use letters, digits, _, -, % and |.")
    if topic in NOT_FOR_PRODUCERS:
        raise InvalidMessageError(f"Topic '{topic}' is reserved for the broker; clients cannot send to it.")
    return topic


def check_group(group: str) -> str:
    """Return the group. Raise ConfigurationError when the name is not valid."""
    if not group.strip():
        raise ConfigurationError("The group is empty. A producer or consumer needs a group name.")
    if len(group) > GROUP_CHARACTERS_MAX:
        raise ConfigurationError(f"The group's name has {len(group)} characters; at most {GROUP_CHARACTERS_MAX} are allowed.")
    if not _ALLOWED.fullmatch(group):
        raise ConfigurationError(f"{group!r} is not a valid group name. Use letters, digits, _, -, % and |.")
    return group
