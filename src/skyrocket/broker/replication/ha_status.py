"""The state of replication, as GET_BROKER_HA_STATUS (907) and `mqadmin haStatus` show it.

The parts that copy the log fill in their figures; a broker without them has no slaves and no master.
"""

from __future__ import annotations

from collections.abc import Callable

from skyrocket.protocol.bodies import HAClientRuntimeInfo, HAConnectionRuntimeInfo, HARuntimeInfo


class HaStatus:
    def __init__(self, log_end: Callable[[], int]) -> None:
        """`log_end` returns the end of this broker's log."""
        self._log_end = log_end
        self.slaves: Callable[[], list[HAConnectionRuntimeInfo]] = list  # of a master: one row for each connected slave
        self.client: Callable[[], HAClientRuntimeInfo] = HAClientRuntimeInfo  # of a slave: its connection to the master

    def show(self, *, is_slave: bool) -> HARuntimeInfo:
        if is_slave:
            client = self.client()
            client.max_offset = self._log_end()
            return HARuntimeInfo(master=False, ha_client_runtime_info=client)
        slaves = self.slaves()
        return HARuntimeInfo(
            master=True,
            master_commit_log_max_offset=self._log_end(),
            in_sync_slave_nums=sum(slave.in_sync for slave in slaves),
            ha_connection_info=slaves,
        )
