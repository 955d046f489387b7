"""Names of topics and groups: which are allowed, and which the system keeps for itself. Namespaces are in `namespaces`."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from skyrocket.client.errors import ConfigurationError, InvalidMessageError
from skyrocket.protocol.system_names import NOT_FOR_PRODUCERS

TOPIC_CHARACTERS_MAX: Final = 127
GROUP_CHARACTERS_MAX: Final = 120  # %RETRY% and a topic's name have to fit beside it

_ALLOWED = re.compile(r"[%|a-zA-Z0-9_-]+")


@lru_cache(maxsize=4096)  # a producer sends to few topics, over and over; an error is not remembered
def check_topic(topic: str) -> str:
    """The topic. InvalidMessageError when no message can be sent to it."""
    if not topic.strip():
        raise InvalidMessageError("A message needs a topic, and this one's is empty.")
    if len(topic) > TOPIC_CHARACTERS_MAX:
        raise InvalidMessageError(f"A topic's name has {len(topic)} characters; {TOPIC_CHARACTERS_MAX} are allowed.")
    if not _ALLOWED.fullmatch(topic):
        raise InvalidMessageError(f"A topic cannot be called {topic!r}: letters, digits, _, -, % and | are allowed.")
    if topic in NOT_FOR_PRODUCERS:
        raise InvalidMessageError(f"Topic '{topic}' belongs to the system: nobody sends to it.")
    return topic


def check_group(group: str) -> str:
    if not group.strip():
        raise ConfigurationError("A group needs a name, and this one's is empty.")
    if len(group) > GROUP_CHARACTERS_MAX:
        raise ConfigurationError(f"A group's name has {len(group)} characters; {GROUP_CHARACTERS_MAX} are allowed.")
    if not _ALLOWED.fullmatch(group):
        raise ConfigurationError(f"A group cannot be called {group!r}: letters, digits, _, -, % and | are allowed.")
    return group
