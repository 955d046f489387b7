"""Contributors: the one interface through which transactions, delays and timers take part in sends.

The send path builds one append for all frames of a turn of the event loop. It knows nothing of transactions, delays or timers. A
contributor says what it claims, and does its part:

                     claims                                  general path          fast path
    a message        by a property that the message has      redirect              fast_redirect, once for many messages
    a message        by how its topic begins                 redirect              (claimed messages take the general path)
    a frame          by how its header begins                its request handler   begin → Contribution

A redirect stores a message elsewhere (`redirects`). A contribution adds records of its own to the append that the sends around
its frames build:

    claim(frame) …         for each frame that begins like one of `frame_starts`
    place()                before the next send, and at the end: put the records of the claimed frames into the append
    attribute(connection)  after the frames of a connection: those claimed since the last call came over it
    complete()             after the last frame: put what closes the contribution into the append
                           — the append is written —
    finish()               take note of what is stored now, and handle the claimed frames that added nothing

If the append fails, `finish` is not called. The frames then take the general path as if nothing had been claimed.

Ends of transactions are the only contribution. The compiled loop (`compiled/send_loop.pyx`) does their `claim` and `place` in C.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from skyrocket.broker.send.redirects import REAL_QUEUE, FastRedirect
from skyrocket.net.connection import Connection
from skyrocket.protocol.frame import Frame
from skyrocket.protocol.headers import SendMessageRequestHeaderV2
from skyrocket.protocol.message.record import Record
from skyrocket.store.log.readdress import ReaddressRequest


class PendingAppend(Protocol):
    """The append that the fast path builds, as a contribution sees it."""

    def readdress(self, requests: list[ReaddressRequest]) -> bool:
        """Copy records of the log behind the records so far, each under its new address.

        Return False, and add none, when they do not fit or need the general path.
        """


class Contribution(Protocol):
    """A contributor's part of one append."""

    def claim(self, frame: Frame) -> bool:
        """Take a frame. Return False when the frame is for the general path."""

    def place(self) -> None: ...

    def attribute(self, connection: Connection) -> None:
        """Take note that the frames claimed since the last call came over this connection."""

    def complete(self) -> None: ...

    def finish(self) -> None: ...


class Contributor:
    """A part of the broker that takes part in sends. It overrides what it needs; by default it claims nothing."""

    property_names: frozenset[str] = frozenset()
    """It claims messages that have any of these properties."""

    topic_prefix: str | None = None
    """It claims messages to topics that begin like this. Other contributors may claim the redirected message again."""

    frame_starts: tuple[bytes, bytes] | None = None
    """It claims frames whose header begins like this, in JSON and in binary. At most one contributor claims frames."""

    def redirect(
        self,
        _header: SendMessageRequestHeaderV2,
        _record: Record,
        _properties: dict[str, str],
        /,
    ) -> Record | None:
        """Return the record to store instead of the sent one, or None when the message is not for this contributor.

        The properties are stored with the record; a redirect may change them. Raise RefusedError to refuse the send.
        """
        return None

    def fast_redirect(self, _properties: Mapping[str, str], /) -> FastRedirect | None:
        """Return how to redirect all messages that have these properties, or None to send them to the general path."""
        return None

    def recall_handle(self, _properties: Mapping[str, str], /) -> str | None:
        """Return the handle by which a producer can recall a message that was redirected with these properties."""
        return None

    def begin(self, append: PendingAppend, /) -> Contribution:
        """Begin a contribution to an append, at its first claimed frame."""
        raise NotImplementedError


class Redirected(NamedTuple):
    record: Record
    recall_handle: str | None = None


class Contributors:
    """All contributors of a broker. Those added first are asked first."""

    def __init__(self) -> None:
        self.property_names: frozenset[str] = frozenset()  # no contributor claims a message without any of these
        self.topic_prefixes: tuple[str, ...] = ()
        self.of_frames: Contributor | None = None
        self._by_property: list[Contributor] = []
        self._by_topic: list[tuple[str, Contributor]] = []

    def add(self, contributor: Contributor) -> None:
        if contributor.property_names:
            self._by_property.append(contributor)
            self.property_names |= contributor.property_names
        if contributor.topic_prefix is not None:
            self._by_topic.append((contributor.topic_prefix, contributor))
            self.topic_prefixes = (*self.topic_prefixes, contributor.topic_prefix)
        if contributor.frame_starts is not None:
            assert self.of_frames is None, "a second contributor claims frames"
            self.of_frames = contributor

    def fast_redirect(self, name: str, properties: Mapping[str, str]) -> FastRedirect | None:
        """Return the fast redirect of messages with these properties, of which contributors claim `name` only."""
        if REAL_QUEUE & properties.keys():
            return None
        claimant = next((one for one in self._by_property if name in one.property_names), None)
        return None if claimant is None else claimant.fast_redirect(properties)

    def redirect(self, header: SendMessageRequestHeaderV2, record: Record, properties: dict[str, str]) -> Redirected:
        """Return the record to store. `properties` become those that are stored with it.

        Contributors that claim by topic come first. Of those that claim by property, the first that returns a record decides.
        """
        for prefix, contributor in self._by_topic:
            if record.topic.startswith(prefix):
                record = contributor.redirect(header, record, properties) or record
        for contributor in self._by_property:
            if not contributor.property_names.isdisjoint(properties):
                elsewhere = contributor.redirect(header, record, properties)
                if elsewhere is not None:
                    return Redirected(elsewhere, contributor.recall_handle(properties))
        return Redirected(record)
