"""Registration of the broker and its topics with the nameservers.

The broker registers at start, at an interval, and when a topic changed; changes in quick succession cause one registration. All
nameservers are called at once, so a dead one delays no other. A nameserver answers with its order configuration: the topics
that are consumed in order.

A topic's deletion waits until no registration is under way that names the topic (`settle`). The administrator then deletes the
topic's route, and nothing that was sent before brings it back.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from typing import Final
from zlib import crc32

from skyrocket.broker.nameserver_addresses import NameserverAddresses
from skyrocket.broker.settings import BrokerSettings
from skyrocket.net.dialer import Dialer
from skyrocket.net.errors import NetError
from skyrocket.net.outside_log import OutsideLog
from skyrocket.protocol.bodies import (
    DataVersion,
    KVTable,
    TopicConfig,
)
from skyrocket.protocol.broker_registration import RegistrationEncoder
from skyrocket.protocol.command import Command
from skyrocket.protocol.errors import BodyError, ProtocolError
from skyrocket.protocol.fastjson.codec import decode
from skyrocket.protocol.headers import (
    RegisterBrokerRequestHeader,
    RegisterBrokerResponseHeader,
    UnRegisterBrokerRequestHeader,
)
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from skyrocket.supervised_task import SupervisedTask

log = logging.getLogger(__name__)
outside = OutsideLog(log)

SETTLE_S_MAX: Final = 2.0  # that a deletion waits for a registration under way; one takes milliseconds

TopicsNow = Callable[[], tuple[dict[str, TopicConfig], DataVersion]]


class NameserverRegistration:
    def __init__(
        self,
        dialer: Dialer,
        settings: Callable[[], BrokerSettings],
        topics: TopicsNow,
        set_ordered: Callable[[Iterable[str]], object],
        ha_address: Callable[[], str] = lambda: "",
        on_master: Callable[[str | None, str | None], object] = lambda _address, _ha_address: None,
        settle_s_max: float = SETTLE_S_MAX,
    ) -> None:
        """`set_ordered` is called with the topics that a nameserver's order configuration names.

        `ha_address` returns where slaves connect to; an empty text while nothing listens for them. `on_master` is called when
        this broker is a slave: with the addresses of its master for requests and for its log, or with None while the nameservers
        that answer know no master.
        """
        self._nameservers = NameserverAddresses(settings, self.on_topics_changed)
        self._dialer = dialer
        self._settings = settings
        self._topics = topics
        self._set_ordered = set_ordered
        self._on_master = on_master
        self._ha_address = ha_address
        self._encoder = RegistrationEncoder()
        self._encoded_in_s = 0.0
        self._settle_s_max = settle_s_max
        self._under_way: dict[str, asyncio.Future[None]] = {}  # by nameserver: done when the registration under way has ended
        self._changed = asyncio.Event()
        self._task: SupervisedTask | None = None
        self._unreachable: set[str] = set()  # nameservers that did not answer last time; logged once, not at every attempt

    async def start(self) -> None:
        """Register, and keep registering in the background."""
        await self._nameservers.start()
        await self.register()
        self._task = SupervisedTask("registration with the nameservers", self._keep_registering)

    def on_topics_changed(self) -> None:
        self._changed.set()

    async def close(self) -> None:
        """Unregister, so that clients stop connecting before the broker stops answering."""
        if self._task is not None:
            await self._task.close()
        await self._nameservers.close()
        settings = self._settings()
        header = UnRegisterBrokerRequestHeader(
            broker_name=settings.broker_name,
            broker_addr=settings.address,
            cluster_name=settings.cluster_name,
            broker_id=settings.broker_id,
        )
        await self._send_to_all(lambda: Command(RequestCode.UNREGISTER_BROKER, fields=header.to_fields()), timeout_ms=1_000)

    async def register(self) -> int:
        """Register with all nameservers; return how many accepted."""
        loop = asyncio.get_running_loop()
        self._under_way = {address: loop.create_future() for address in self._nameservers()}  # before the topics are read
        try:
            command = await self._registration_request()
            answers = await self._send_to_all(
                lambda: Command(command.code, fields=command.fields, body=command.body),
                timeout_ms=self._settings().register_timeout_ms,
            )
        finally:
            for address in list(self._under_way):
                self._end_registration(address)
        if answers and self._settings().role.is_slave:
            masters = [found for answer in answers if (found := self._read_master(answer)) != (None, None)]
            self._on_master(*(masters[0] if masters else (None, None)))
        return len(answers)

    async def settle(self) -> None:
        """Wait until no nameserver can still get a registration with topics that were read before now.

        It does not wait for a nameserver that did not answer the last time, and never long.
        """
        under_way = [ended for address, ended in self._under_way.items() if address not in self._unreachable]
        if under_way:
            await asyncio.wait(under_way, timeout=self._settle_s_max)

    def _end_registration(self, address: str) -> None:
        ended = self._under_way.pop(address, None)
        if ended is not None:
            ended.set_result(None)

    def _read_master(self, answer: Command) -> tuple[str | None, str | None]:
        try:
            header = answer.header(RegisterBrokerResponseHeader)
        except ProtocolError as error:
            outside.warning("A nameserver's answer to a registration cannot be read: %s", error)
            return None, None
        return header.master_addr or None, header.ha_server_addr or None

    async def _keep_registering(self) -> None:
        while True:
            try:
                async with asyncio.timeout(self._settings().register_interval_ms / 1000):
                    await self._changed.wait()
            except TimeoutError:
                pass
            self._changed.clear()
            await self.register()
            await asyncio.sleep(self._encoded_in_s)  # a thread encodes for at most half of the time

    async def _send_to_all(self, make: Callable[[], Command], timeout_ms: int) -> list[Command]:
        """Send a request to all nameservers. Return the answers of those that accept it."""
        answers = await asyncio.gather(*(self._send(address, make(), timeout_ms) for address in self._nameservers()))
        return [answer for answer in answers if answer is not None]

    async def _send(self, address: str, command: Command, timeout_ms: int) -> Command | None:
        try:
            response = await self._dialer.request(address, command, timeout_ms)
        except NetError as error:
            if address not in self._unreachable:
                log.warning("Nameserver %s cannot be reached: %s", address, error)
                self._unreachable.add(address)
            return None
        finally:
            self._end_registration(address)
        self._unreachable.discard(address)
        if response.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            log.warning("%s is not a nameserver: it does not know registrations. Is it a broker? Check namesrvAddr.", address)
            return None
        if response.code != ResponseCode.SUCCESS:
            outside.warning("Nameserver %s refused the registration: %s", address, response.remark)
            return None
        if command.code == RequestCode.REGISTER_BROKER and response.body:
            self._apply_order_config(address, response.body)
        return response

    def _apply_order_config(self, address: str, body: bytes) -> None:
        try:
            self._set_ordered(decode(body, KVTable).table or ())
        except BodyError as error:
            outside.warning("The order configuration of nameserver %s cannot be read: %s", address, error)

    async def _registration_request(self) -> Command:
        settings = self._settings()
        # In a thread: a large table takes longer than the loop may stop for.
        began_s = time.monotonic()
        body = await asyncio.to_thread(self._encoder.encode, *self._topics(), DataVersion(0, 0, 0))
        self._encoded_in_s = time.monotonic() - began_s
        header = RegisterBrokerRequestHeader(
            broker_name=settings.broker_name,
            broker_addr=settings.address,
            cluster_name=settings.cluster_name,
            ha_server_addr=self._ha_address(),
            broker_id=settings.broker_id,
            compressed=False,
            enable_acting_master=False,
            body_crc32=crc32(body) & 0x7FFF_FFFF,
        )
        return Command(RequestCode.REGISTER_BROKER, fields=header.to_fields(), body=body)
