"""The message with which a new leader confirms what the last one has left.

Entries of former terms count only together with one of the leader's own term. Everybody's dispatcher expects a whole message in
an entry, so it is one, to a system topic that each broker has and nobody reads.
"""

from __future__ import annotations

from skyrocket.protocol.message.record import Record
from skyrocket.protocol.system_names import SELF_TEST_TOPIC
from skyrocket.store.message import AppendRequest, append_request_of


def make_marker(node: str, term: int, now_ms: int, host: bytes) -> AppendRequest:
    body = f"{node} leads term {term}".encode()
    return append_request_of(Record(topic=SELF_TEST_TOPIC, body=body, born_timestamp=now_ms, born_host=host, store_host=host))
