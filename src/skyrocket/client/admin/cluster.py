"""Administration of brokers and nameservers: their state and their settings."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from skyrocket.client.admin.brokers import Brokers
from skyrocket.client.admin.ledger_groups import transfer_leadership
from skyrocket.client.admin.results import BrokerInfo, BrokerState, NameserverState, ReplicationState, SlaveState
from skyrocket.client.admin.secret_settings import hide_secrets
from skyrocket.client.admin.stage_times import parse_put_percentiles, parse_stages
from skyrocket.client.errors import BrokerError, ClientError, NotFoundError
from skyrocket.protocol.bodies import ClusterInfo, HARuntimeInfo, KVTable
from skyrocket.protocol.command import Command
from skyrocket.protocol.config_text import decode_config, encode_config
from skyrocket.protocol.errors import BodyError
from skyrocket.protocol.header import Header
from skyrocket.protocol.headers import (
    AddWritePermOfBrokerRequestHeader,
    AddWritePermOfBrokerResponseHeader,
    WipeWritePermOfBrokerRequestHeader,
    WipeWritePermOfBrokerResponseHeader,
)
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode


class ClusterAdmin:
    """Brokers and nameservers of a cluster."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers

    @property
    def nameservers(self) -> list[str]:
        """The addresses of the nameservers."""
        return list(self._brokers.session.nameservers)

    async def brokers(self, nameserver: str | None = None) -> list[BrokerInfo]:
        """List all brokers that are registered, slaves included; with `nameserver`, those that this nameserver knows."""
        return await self._brokers.list_brokers(nameserver)

    async def states(self) -> list[BrokerState]:
        """Fetch the state of all brokers. If a broker does not answer, the `error` of its row says why."""
        return await self._brokers.for_each(await self.brokers(), self.state)

    async def state(self, broker: BrokerInfo) -> BrokerState:
        """Fetch the state of one of `brokers`. If it does not answer, `error` says why."""
        fields = msgspec.structs.asdict(broker)
        try:
            info = await self.runtime(broker.address)
        except ClientError as error:
            return BrokerState(**fields, error=str(error))
        put_p99_ms, put_p999_ms = parse_put_percentiles(info)
        today = _parse_int(info, "msgPutTotalTodayNow") - _parse_int(info, "msgPutTotalTodayMorning")
        return BrokerState(
            **fields,
            version=info.get("brokerVersionDesc", "").removeprefix("V").replace("_", "."),
            skyrocket_version=info.get("skyrocketVersion", ""),
            put_rate=_parse_first_number(info.get("putTps", "")),
            get_rate=_parse_first_number(info.get("getTransferredTps", "")),
            messages_today=max(0, today),
            disk_used_percent=round(100 * max(0.0, _parse_first_number(info.get("commitLogDiskRatio", ""))), 1),
            longest_put_ms=_parse_int(info, "putMessageEntireTimeMax"),
            started_ms=_parse_int(info, "bootTimestamp"),
            node=info.get("dledgerNode", ""),
            node_role=info.get("dledgerRole", ""),
            term=_parse_int(info, "dledgerTerm"),
            end_index=_parse_int(info, "dledgerEndIndex"),
            damaged_entries=_parse_int(info, "dledgerDamagedEntries"),
            stages=parse_stages(info),
            put_p99_ms=put_p99_ms,
            put_p999_ms=put_p999_ms,
        )

    async def runtime(self, broker: str) -> dict[str, str]:
        """Fetch the runtime values of a broker, by Apache's names. `broker` is an address, or a name for its master."""
        answer = await self._request_broker(await self._brokers.address(broker), RequestCode.GET_BROKER_RUNTIME_INFO)
        return dict(sorted(self._brokers.decode_body(answer, KVTable).table.items()))

    async def replication(self, broker: str) -> ReplicationState:
        """Fetch how far the slaves of a master are, or how a slave copies. `broker` is an address, or a name for its master.

        Raises BrokerError if the broker is older than 5.0 and cannot tell.
        """
        answer = await self._brokers.session.request_ok(await self._brokers.address(broker), RequestCode.GET_BROKER_HA_STATUS)
        info = self._brokers.decode_body(answer, HARuntimeInfo)
        own = info.ha_client_runtime_info
        end = info.master_commit_log_max_offset if info.master else own.max_offset
        slaves = [
            SlaveState(
                address=(one.addr or "").removeprefix("/"),
                copied_offset=one.slave_ack_offset,
                lag_bytes=max(0, end - one.slave_ack_offset),
                is_in_sync=one.in_sync,
            )
            for one in info.ha_connection_info
        ]
        master = "" if info.master else own.master_addr or ""
        return ReplicationState(is_master=info.master, end_offset=end, slaves=slaves, master_address=master)

    async def nameserver_states(self) -> list[NameserverState]:
        """Ask each nameserver which brokers it knows. If one does not answer, the `error` of its row says why."""

        async def ask(address: str) -> NameserverState:
            try:
                answer = await self._request_nameserver(address, RequestCode.GET_BROKER_CLUSTER_INFO)
                table = self._brokers.decode_body(answer, ClusterInfo).broker_addr_table or {}
            except ClientError as error:
                return NameserverState(address=address, error=str(error))
            known = (one for broker in table.values() for one in (broker.broker_addrs or {}).values())
            return NameserverState(address=address, brokers=sorted(known))

        return await self._brokers.for_each(self.nameservers, ask)

    async def transfer_leader(self, broker: str, node: str) -> None:
        """Make a node, such as n1, the leader of its DLedger group. `broker` is the group's broker name.

        Raises ConfigurationError if the broker is in no group with such a node, and BrokerError if the node does not get to lead.
        """
        address = await self._brokers.address(broker)
        await transfer_leadership(self._brokers, await self.config(address), broker, node)

    async def drain(self, broker: str) -> int:
        """Make every nameserver tell producers that a broker takes no messages. Return how many topics it has.

        Consumers go on. A nameserver that starts again does not know of it, and Apache's forgets it when a topic of the broker
        changes.
        """
        header = WipeWritePermOfBrokerRequestHeader(broker_name=await self._require_name(broker))
        answers = await self._ask_nameservers(RequestCode.WIPE_WRITE_PERM_OF_BROKER, header)
        return max(one.header(WipeWritePermOfBrokerResponseHeader).wipe_topic_count for one in answers)

    async def undrain(self, broker: str) -> int:
        """Make every nameserver tell producers that a broker takes messages, of all its topics. Return how many it has."""
        header = AddWritePermOfBrokerRequestHeader(broker_name=await self._require_name(broker))
        answers = await self._ask_nameservers(RequestCode.ADD_WRITE_PERM_OF_BROKER, header)
        return max(one.header(AddWritePermOfBrokerResponseHeader).add_topic_count for one in answers)

    async def _require_name(self, broker: str) -> str:
        """Return the name of a broker. Raise NotFoundError if no nameserver knows it: they would change nothing, and say yes."""
        if broker not in {one.broker_name for one in await self.brokers()}:
            raise NotFoundError(f"No nameserver has a broker called '{broker}'.")
        return broker

    async def _ask_nameservers(self, code: int, header: Header) -> list[Command]:
        return await self._brokers.for_each(
            self.nameservers, lambda address: self._brokers.session.request_ok(address, code, header)
        )

    # --- settings

    async def config(self, broker: str) -> dict[str, str]:
        """Fetch the settings of a broker, by Apache's names. Passwords and keys are hidden, which Apache's brokers show."""
        address = await self._brokers.address(broker)
        return _decode_settings(await self._request_broker(address, RequestCode.GET_BROKER_CONFIG), address)

    async def update_config(self, broker: str, values: Mapping[str, str]) -> None:
        """Change settings of a running broker. Raises BrokerError if the broker refuses."""
        address = await self._brokers.address(broker)
        body = encode_config(values)
        await self._request_broker(address, RequestCode.UPDATE_BROKER_CONFIG, body)

    async def _request_broker(self, address: str, code: int, body: bytes = b"") -> Command:
        """Send a request that every broker serves. Raise NotFoundError when the server at the address does not know it."""
        wrong = f"{address} is not a broker, but perhaps a nameserver. Give a broker's name or address."
        return await self._request_server(address, code, body, wrong)

    async def _request_nameserver(self, address: str, code: int, body: bytes = b"") -> Command:
        """Send a request that every nameserver serves. Raise NotFoundError when the server at the address does not know it."""
        wrong = f"{address} is not a nameserver, but perhaps a broker. Nameservers listen on port 9876 by default."
        return await self._request_server(address, code, body, wrong)

    async def _request_server(self, address: str, code: int, body: bytes, wrong: str) -> Command:
        try:
            return await self._brokers.session.request_ok(address, code, body=body)
        except BrokerError as error:
            if error.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                raise
            raise NotFoundError(wrong) from error

    async def nameserver_config(self) -> dict[str, dict[str, str]]:
        """Fetch the settings of each nameserver: address -> name -> value. Passwords and keys are hidden."""

        async def ask(address: str) -> dict[str, str]:
            return _decode_settings(await self._request_nameserver(address, RequestCode.GET_NAMESRV_CONFIG), address)

        addresses = self.nameservers
        return dict(zip(addresses, await self._brokers.for_each(addresses, ask), strict=True))

    async def update_nameserver_config(self, values: Mapping[str, str]) -> None:
        """Change settings of every nameserver."""
        body = encode_config(values)
        await self._brokers.for_each(
            self.nameservers, lambda address: self._request_nameserver(address, RequestCode.UPDATE_NAMESRV_CONFIG, body)
        )


def _decode_settings(answer: Command, address: str) -> dict[str, str]:
    try:
        return hide_secrets(dict(sorted(decode_config(answer.body).items())))
    except BodyError as error:
        raise BrokerError(answer.code, f"the settings cannot be decoded: {error}", address) from error


def _parse_int(info: Mapping[str, str], name: str) -> int:
    text = info.get(name, "")
    return int(text) if text.isdigit() else 0


def _parse_first_number(text: str) -> float:
    """Parse the first of the three rates that brokers report: over 10 s, 1 min and 10 min."""
    try:
        return float(text.split(maxsplit=1)[0])
    except (ValueError, IndexError):
        return 0.0
