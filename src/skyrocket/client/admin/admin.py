"""The administrator's client.

async with Admin("127.0.0.1:9876") as admin:
    await admin.topics.create("orders", queues=8)
    print((await admin.groups.progress("coupons")).lag)
"""

from __future__ import annotations

from types import TracebackType
from typing import Self, Unpack

from skyrocket.client.admin.brokers import Brokers
from skyrocket.client.admin.cluster import Cluster
from skyrocket.client.admin.groups import Groups
from skyrocket.client.admin.messages import Messages
from skyrocket.client.admin.offsets import Offsets
from skyrocket.client.admin.topics import Topics
from skyrocket.client.errors import ClientClosedError
from skyrocket.client.options import ClientKeywords, ClientOptions, Nameservers, resolve_options
from skyrocket.client.session.session import Session


class AdminOptions(ClientKeywords, total=False):
    """The keyword arguments of `Admin`."""

    options: ClientOptions | None  # what all clients share: nameservers, TLS, credentials, limits


class Admin:
    """Topics, groups, offsets, messages and the cluster itself, each under its name. Start it with `async with`, or with `start`
    and `close`; use it in one event loop. It is a member of no group: brokers do not know it."""

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
        self._nouns: tuple[Topics, Groups, Offsets, Messages, Cluster] | None = None

    async def start(self) -> None:
        if self._session is not None:
            return
        self._session = await Session.acquire(self._options)
        brokers = Brokers(self._session)
        offsets = Offsets(brokers)
        self._nouns = (Topics(brokers), Groups(brokers), offsets, Messages(brokers, offsets), Cluster(brokers))

    async def close(self) -> None:
        session, self._session, self._nouns = self._session, None, None
        if session is not None:
            await session.release()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    @property
    def topics(self) -> Topics:
        return self._opened()[0]

    @property
    def groups(self) -> Groups:
        return self._opened()[1]

    @property
    def offsets(self) -> Offsets:
        return self._opened()[2]

    @property
    def messages(self) -> Messages:
        return self._opened()[3]

    @property
    def cluster(self) -> Cluster:
        return self._opened()[4]

    def _opened(self) -> tuple[Topics, Groups, Offsets, Messages, Cluster]:
        if self._nouns is None:
            raise ClientClosedError("The administrator's client is closed, or was not started: use `async with`.")
        return self._nouns
