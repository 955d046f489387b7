"""The state of replication, as GET_BROKER_HA_STATUS (907) and `mqadmin haStatus` show it.

of a master     the end of its log, and a row for each slave: what it has, and by how much it is behind
of a slave      the end of its log, the master that it copies from, and when it last heard of it
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from skyrocket.broker.replication.replication import Replication
from skyrocket.protocol.bodies import HAClientRuntimeInfo, HAConnectionRuntimeInfo, HARuntimeInfo

IN_SYNC_BYTES: Final = 256 * 1024 * 1024  # a slave that is further behind is not in sync: Apache's haMaxGapNotInSync


class HaStatus:
    def __init__(
        self,
        replication: Replication | None,
        log_end: Callable[[], int],
        wall_ms: Callable[[], int],
        now_ms: Callable[[], int],
    ) -> None:
        """`log_end` returns the end of this broker's log. `now_ms` is the clock of `replication`."""
        self._replication = replication
        self._log_end = log_end
        self._wall_ms = wall_ms
        self._now_ms = now_ms

    def show(self, *, is_slave: bool) -> HARuntimeInfo:
        if is_slave:
            return HARuntimeInfo(master=False, ha_client_runtime_info=self._client())
        slaves = self._slaves()
        return HARuntimeInfo(
            master=True,
            master_commit_log_max_offset=self._log_end(),
            in_sync_slave_nums=sum(slave.in_sync for slave in slaves),
            ha_connection_info=slaves,
        )

    def _slaves(self) -> list[HAConnectionRuntimeInfo]:
        server = None if self._replication is None else self._replication.server
        log_end = self._log_end()
        return [
            HAConnectionRuntimeInfo(
                addr=slave.address,
                slave_ack_offset=slave.acknowledged,
                diff=log_end - slave.acknowledged,
                in_sync=log_end - slave.acknowledged < IN_SYNC_BYTES,
                transfer_from_where=slave.next_offset,
            )
            for slave in (() if server is None else server.progress())
        ]

    def _client(self) -> HAClientRuntimeInfo:
        client = None if self._replication is None else self._replication.client
        if client is None:
            return HAClientRuntimeInfo(max_offset=self._log_end())
        heard_ms = client.received_ms
        return HAClientRuntimeInfo(
            master_addr=client.master_address or None,
            max_offset=self._log_end(),
            last_read_timestamp=self._wall_ms() - (self._now_ms() - heard_ms) if heard_ms else 0,
        )
