"""The admin client: manages topics, groups, offsets, messages, brokers and access control of a cluster.

async with Admin("127.0.0.1:9876") as admin:
    await admin.topics.create("orders", queues=8)
    print((await admin.groups.progress("coupons")).lag)
"""

from __future__ import annotations

from types import TracebackType
from typing import Self, Unpack

from skyrocket.client.admin.access import AccessAdmin
from skyrocket.client.admin.brokers import Brokers
from skyrocket.client.admin.cluster import ClusterAdmin
from skyrocket.client.admin.groups import GroupAdmin
from skyrocket.client.admin.messages import MessageAdmin
from skyrocket.client.admin.offsets import OffsetAdmin
from skyrocket.client.admin.topics import TopicAdmin
from skyrocket.client.errors import ClientClosedError
from skyrocket.client.options import ClientKeywords, ClientOptions, Nameservers, resolve_options
from skyrocket.client.session.session import Session

_Parts = tuple[TopicAdmin, GroupAdmin, OffsetAdmin, MessageAdmin, ClusterAdmin, AccessAdmin]


class AdminOptions(ClientKeywords, total=False):
    """The keyword arguments of `Admin`."""

    options: ClientOptions | None  # what all clients share: nameservers, TLS, credentials, limits


class Admin:
    """The admin client. Start it with `async with`, or with `start` and `close`; use it in one event loop.

    It joins no group and sends no heartbeats.
    """

    def __init__(
        self,
        nameservers: Nameservers = None,
        *,
        options: ClientOptions | None = None,
        **keywords: Unpack[ClientKeywords],
    ) -> None:
        """`ClientOptions` explains the options that `keywords` set."""
        self._options = resolve_options(options, nameservers, keywords)
        self._session: Session | None = None
        self._parts: _Parts | None = None

    async def start(self) -> None:
        """Start the client. Connections open with the first request."""
        if self._session is not None:
            return
        self._session = await Session.acquire(self._options)
        brokers = Brokers(self._session)
        offsets = OffsetAdmin(brokers)
        self._parts = (
            TopicAdmin(brokers),
            GroupAdmin(brokers),
            offsets,
            MessageAdmin(brokers, offsets),
            ClusterAdmin(brokers),
            AccessAdmin(brokers),
        )

    async def close(self) -> None:
        """Close the client. Connections that other clients share stay open."""
        session, self._session, self._parts = self._session, None, None
        if session is not None:
            await session.release()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    @property
    def topics(self) -> TopicAdmin:
        return self._require_open()[0]

    @property
    def groups(self) -> GroupAdmin:
        return self._require_open()[1]

    @property
    def offsets(self) -> OffsetAdmin:
        return self._require_open()[2]

    @property
    def messages(self) -> MessageAdmin:
        return self._require_open()[3]

    @property
    def cluster(self) -> ClusterAdmin:
        return self._require_open()[4]

    @property
    def access(self) -> AccessAdmin:
        return self._require_open()[5]

    def _require_open(self) -> _Parts:
        if self._parts is None:
            raise ClientClosedError("The admin client is closed or was not started. Use `async with`.")
        return self._parts
