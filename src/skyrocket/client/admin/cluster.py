"""The cluster, for an administrator: its brokers, how they are, and the settings of brokers and nameservers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from skyrocket.client.admin.brokers import Brokers
from skyrocket.client.admin.results import Broker, BrokerState
from skyrocket.client.errors import BrokerError, ClientError
from skyrocket.protocol.bodies import KVTable
from skyrocket.protocol.command import Command
from skyrocket.protocol.config_text import decode_config, encode_config
from skyrocket.protocol.errors import BodyError
from skyrocket.protocol.requests import RequestCode

_DISK: Final = "commitLogDiskRatio"


class Cluster:
    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers

    @property
    def nameservers(self) -> list[str]:
        return list(self._brokers.session.nameservers)

    async def brokers(self) -> list[Broker]:
        """All that the nameservers know, slaves too."""
        return await self._brokers.all()

    async def states(self) -> list[BrokerState]:
        """The same, each asked how it is. One that does not answer is told as such: its `error` is not empty."""
        return await self._brokers.each(await self.brokers(), self._state)

    async def _state(self, broker: Broker) -> BrokerState:
        known = msgspec.structs.asdict(broker)
        try:
            info = await self.runtime(broker.address)
        except ClientError as error:
            return BrokerState(**known, error=str(error))
        today = _whole(info, "msgPutTotalTodayNow") - _whole(info, "msgPutTotalTodayMorning")
        return BrokerState(
            **known,
            version=info.get("brokerVersionDesc", "").removeprefix("V").replace("_", "."),
            put_rate=_first_number(info.get("putTps", "")),
            get_rate=_first_number(info.get("getTransferredTps", "")),
            messages_today=max(0, today),
            disk_used_percent=round(100 * max(0.0, _first_number(info.get(_DISK, ""))), 1),
            started_ms=_whole(info, "bootTimestamp"),
        )

    async def runtime(self, broker: str) -> dict[str, str]:
        """Everything that a broker (its name: the master; or an address) says of itself, by Apache's names."""
        address = await self._brokers.address(broker)
        answer = await self._brokers.session.request_ok(address, RequestCode.GET_BROKER_RUNTIME_INFO)
        return dict(sorted(self._brokers.read(answer, KVTable).table.items()))

    # --- settings

    async def config(self, broker: str) -> dict[str, str]:
        """A broker's settings, by Apache's names."""
        address = await self._brokers.address(broker)
        return _settings(await self._brokers.session.request_ok(address, RequestCode.GET_BROKER_CONFIG), address)

    async def update_config(self, broker: str, values: Mapping[str, str]) -> None:
        """Change settings while the broker runs. BrokerError when it does not let them be changed."""
        address = await self._brokers.address(broker)
        body = encode_config(values)
        await self._brokers.session.request_ok(address, RequestCode.UPDATE_BROKER_CONFIG, body=body)

    async def nameserver_config(self) -> dict[str, dict[str, str]]:
        """Each nameserver's settings: address -> name -> value."""

        async def ask(address: str) -> dict[str, str]:
            return _settings(await self._brokers.session.request_ok(address, RequestCode.GET_NAMESRV_CONFIG), address)

        addresses = self.nameservers
        return dict(zip(addresses, await self._brokers.each(addresses, ask), strict=True))

    async def update_nameserver_config(self, values: Mapping[str, str]) -> None:
        """At every nameserver: they do not tell one another."""
        await self._brokers.tell_nameservers(RequestCode.UPDATE_NAMESRV_CONFIG, body=encode_config(values))


def _settings(answer: Command, address: str) -> dict[str, str]:
    try:
        return dict(sorted(decode_config(answer.body).items()))
    except BodyError as error:
        raise BrokerError(answer.code, f"it cannot be read: {error}", address) from error


def _whole(info: Mapping[str, str], name: str) -> int:
    text = info.get(name, "")
    return int(text) if text.isdigit() else 0


def _first_number(text: str) -> float:
    """Rates are told as three: of ten seconds, a minute and ten minutes."""
    try:
        return float(text.split(maxsplit=1)[0])
    except (ValueError, IndexError):
        return 0.0
