"""What a request changes, in the words of the audit log: names alone, never a value.

| request                      | targets                                                                  |
|------------------------------|--------------------------------------------------------------------------|
| about a user                 | User:alice                                                               |
| about rules                  | User:alice, and the resource of each rule: Topic:orders                  |
| settings                     | the names of the settings, such as brokerPermission                      |
| keys and values, brokers and topics at a nameserver | namespace/key, Broker:broker-a, Topic:orders      |

The topics and groups of other requests are the resources that they need (`request_needs`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from typing import Final

from skyrocket.protocol.bodies import AclInfo
from skyrocket.protocol.command import Command
from skyrocket.protocol.config_text import decode_config
from skyrocket.protocol.errors import ProtocolError
from skyrocket.protocol.fastjson.codec import decode_request
from skyrocket.protocol.requests import RequestCode

TARGETS_MAX: Final = 20
OTHER: Final = "?"  # what is no name of a setting: nobody knows what a slip of the hand has put there

_USERS: Final = frozenset({RequestCode.AUTH_CREATE_USER, RequestCode.AUTH_UPDATE_USER, RequestCode.AUTH_DELETE_USER})
_NEW_RULES: Final = frozenset({RequestCode.AUTH_CREATE_ACL, RequestCode.AUTH_UPDATE_ACL})
_SETTINGS: Final = frozenset({RequestCode.UPDATE_BROKER_CONFIG, RequestCode.UPDATE_NAMESRV_CONFIG})
_KEYS: Final = frozenset({RequestCode.PUT_KV_CONFIG, RequestCode.DELETE_KV_CONFIG})
_BROKERS: Final = frozenset({RequestCode.WIPE_WRITE_PERM_OF_BROKER, RequestCode.ADD_WRITE_PERM_OF_BROKER})
_TOPICS: Final = frozenset({RequestCode.DELETE_TOPIC_IN_NAMESRV, RequestCode.REGISTER_TOPIC_IN_NAMESRV})
_SETTING_NAME: Final = re.compile(r"[a-z][a-zA-Z0-9.]{0,63}")


def targets_of(command: Command, *, with_body: bool = True) -> list[str]:
    """Return what a request changes. Without its body, of a request that nobody has admitted: only what its header names."""
    found: list[str] = []
    with suppress(ProtocolError):  # its handler says so
        found.extend(islice(_find_targets(command, with_body=with_body), TARGETS_MAX))
    return found


def _find_targets(command: Command, *, with_body: bool) -> Iterator[str]:
    code, field = command.code, command.fields.get
    if code in _USERS and field("username"):
        yield f"User:{field('username')}"
    elif code in _NEW_RULES or code == RequestCode.AUTH_DELETE_ACL:
        yield from filter(None, (field("subject"), field("resource")))
        if code in _NEW_RULES and with_body and command.body:
            for policy in decode_request(command.body, AclInfo).policies or ():
                yield from (entry.resource for entry in policy.entries or () if entry.resource)
    elif code in _SETTINGS and with_body:
        for name in decode_config(command.body):
            yield name if _SETTING_NAME.fullmatch(name) else OTHER
    elif code in _KEYS:
        yield f"{field('namespace', '')}/{field('key', '')}"
    elif code in _BROKERS and field("brokerName"):
        yield f"Broker:{field('brokerName')}"
    elif code in _TOPICS and field("topic"):
        yield f"Topic:{field('topic')}"
