"""The broker itself: its settings (25, 26), runtime information (28), and the removal of expired files (329)."""

from __future__ import annotations

import asyncio
import math
import shutil
from collections.abc import Callable

from skyrocket import __version__, compiled
from skyrocket.broker.admin.cold_answers import read_cold
from skyrocket.broker.context import BrokerContext
from skyrocket.broker.load.counters import Rate
from skyrocket.net.connection import Connection
from skyrocket.net.router import Router
from skyrocket.protocol.bodies import DataVersion, KVTable
from skyrocket.protocol.command import Command
from skyrocket.protocol.config_text import encode_config
from skyrocket.protocol.fastjson.codec import encode
from skyrocket.protocol.headers import GetBrokerConfigResponseHeader
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from skyrocket.settings.requests import change_settings
from skyrocket.store.cold_reads import RepeatedReads

DISK_EVERY_MS = 1_000  # between two measurements of the disk
_RATE_STRETCHES_MS = (10_000, 60_000, 600_000)

# Rows that tools expect, for things that this broker does not have (thread pools, a buffer pool) or does not measure.
_POOLS = ("send", "pull", "litePull", "ack", "query")
_NOT_MEASURED = {
    **{f"{pool}ThreadPoolQueue{what}": "0" for pool in _POOLS for what in ("Size", "Capacity", "HeadWaitTimeMills")},
    "EndTransactionQueueSize": "0",
    "EndTransactionThreadPoolQueueCapacity": "0",
    "pageCacheLockTimeMills": "0",
    "dispatchMaxBuffer": "0",
    "remainTransientStoreBufferNumbs": str(2**31 - 1),  # Apache's value without such a pool
    "putMessageDistributeTime": "null",
    "putMessageFailedTimes": "0",
    "putLatency99": "0.00",
    "putLatency999": "0.00",
    "getMessageEntireTimeMax": "0",
    "timerReadBehind": "0",
    "timerOffsetBehind": "0",
    "timerCongestNum": "0",
    "timerEnqueueTps": "0.0",
    "timerDequeueTps": "0.0",
}


class BrokerHandlers:
    def __init__(self, context: BrokerContext) -> None:
        self._store = context.store
        self._settings = context.settings
        self._counters = context.counters
        self._flow_control = context.flow_control
        self._wall_ms = context.wall_ms
        self._remove_expired_files = context.remove_expired_files
        self._runtime_figures = context.runtime_figures
        self._reads = RepeatedReads(context.store.reads)
        self._now_ms = context.now_ms
        self._turns = asyncio.Lock()
        self._disk: dict[str, str] = {}  # figures of the disk, when they were last measured
        self._disk_measured_ms = 0
        self._started_ms = context.wall_ms()
        self._version = DataVersion(timestamp=self._started_ms)

    def register(self, router: Router) -> None:
        router.add(RequestCode.UPDATE_BROKER_CONFIG, self.update_config)
        router.add(RequestCode.GET_BROKER_CONFIG, self.get_config)
        router.add(RequestCode.GET_BROKER_RUNTIME_INFO, self.runtime_info)
        router.add(RequestCode.DELETE_EXPIRED_COMMITLOG, self.delete_expired)

    async def update_config(self, command: Command, connection: Connection) -> Command:
        await change_settings(self._settings, command, connection)
        self._version = self._version.next(0, self._wall_ms())
        return command.response(ResponseCode.SUCCESS)

    def get_config(self, command: Command, _connection: Connection) -> Command:
        version = encode(self._version).decode()
        header = GetBrokerConfigResponseHeader(version=version)
        return command.response(ResponseCode.SUCCESS, header, body=encode_config(self._settings().to_texts()))

    async def delete_expired(self, command: Command, _connection: Connection) -> Command:
        await self._remove_expired_files()
        return command.response(ResponseCode.SUCCESS)

    async def runtime_info(self, command: Command, _connection: Connection) -> Command:
        """Measure the disk in a thread: a busy one takes its time. The first message may have to be read from it.

        In one turn of the loop, one request is answered, however many a client sends.
        """
        async with self._turns:
            await asyncio.sleep(0)  # the next request has to wait for the lock, and so for the next turn
            now_ms = self._now_ms()
            if not self._disk or now_ms - self._disk_measured_ms >= DISK_EVERY_MS:
                self._disk = await asyncio.to_thread(self._disk_figures)
                self._disk_measured_ms = now_ms
            earliest_ms = await read_cold(self._reads, "earliest", self._store.reading.earliest_timestamp)
            return command.response(ResponseCode.SUCCESS, body=encode(KVTable(self.runtime(earliest_ms) | self._disk)))

    def _disk_figures(self) -> dict[str, str]:
        store = self._store
        log_path = store.paths.commit_log
        log_ratio, queue_ratio = (f"{math.ceil(store.used_percent(path)) / 100:.2f}" for path in (log_path, store.paths.root))
        return {
            "commitLogDiskRatio": log_ratio,
            f"commitLogDiskRatio_{log_path}": log_ratio,
            "consumeQueueDiskRatio": queue_ratio,
            "commitLogDirCapacity": _capacity(log_path),
        }

    def runtime(self, earliest_ms: int) -> dict[str, str]:
        """Return runtime figures under Apache's names, which mqadmin and dashboards read. Those of the disk come beside them."""
        store, horizon, now_ms = self._store, self._store.horizon, self._wall_ms()
        put, get, mornings = self._counters.put, self._counters.get, self._counters.mornings
        rows = _NOT_MEASURED | {
            "brokerVersionDesc": "V5_5_0",
            "skyrocketVersion": f"{__version__} ({compiled.kind()})",
            "brokerActive": "true",
            "bootTimestamp": str(self._started_ms),
            "startAcceptSendRequestTimeStamp": "0",
            "runtime": _format_uptime(now_ms - self._started_ms),
            "msgPutTotalYesterdayMorning": str(mornings.put_yesterday),
            "msgPutTotalTodayMorning": str(mornings.put_today),
            "msgPutTotalTodayNow": str(put.messages),
            "msgGetTotalYesterdayMorning": str(mornings.get_yesterday),
            "msgGetTotalTodayMorning": str(mornings.get_today),
            "msgGetTotalTodayNow": str(get.messages),
            "putMessageTimesTotal": str(put.messages),
            "putMessageSizeTotal": str(put.size_bytes),
            "putMessageAverageSize": str(put.size_bytes / max(1, put.messages)),
            "putMessageEntireTimeMax": str(self._flow_control.longest_send_ms),
            "sendThreadPoolQueueHeadWaitTimeMills": str(self._flow_control.waited_ms),
            "pullThreadPoolQueueHeadWaitTimeMills": str(self._flow_control.waited_ms),
            "busyRefusals": str(self._flow_control.refused),
            "putTps": _rates(put.rate, now_ms),
            "getTotalTps": _rates(get.rate, now_ms),
            "getFoundTps": _rates(get.rate, now_ms),
            "getTransferredTps": _rates(get.rate, now_ms),
            "getMissTps": "0.0 0.0 0.0",
            "commitLogMinOffset": str(store.log.start),
            "commitLogMaxOffset": str(store.log.end),
            "dispatchBehindBytes": str(horizon.appended - horizon.confirmed),
            "remainHowManyDataToFlush": _binary(horizon.appended - horizon.flushed),
            "earliestMessageTimeStamp": str(earliest_ms),
        }
        for figures in self._runtime_figures:
            rows |= figures()
        return rows


def _rates(rate: Callable[[int, int], Rate], now_ms: int) -> str:
    """Return the rates of the last ten seconds, minute and ten minutes, as text."""
    return " ".join(f"{rate(now_ms, stretch_ms).per_second}" for stretch_ms in _RATE_STRETCHES_MS)


def _capacity(path: str) -> str:
    try:
        space = shutil.disk_usage(path)
    except OSError as error:
        return f"unknown: {error.strerror}"
    return f"Total : {_binary(space.total)}, Free : {_binary(space.free)}."


def _binary(size_bytes: int) -> str:
    """Format a size as Apache does: 1536 is 1.5 KiB."""
    power = max(0, (size_bytes.bit_length() - 1) // 10)
    return f"{size_bytes / 1024**power:.1f} {'KMGTPE'[power - 1]}iB" if power else f"{size_bytes} B"


def _format_uptime(span_ms: int) -> str:
    seconds = span_ms // 1000
    return f"[ {seconds // 86400} days, {seconds // 3600 % 24} hours, {seconds // 60 % 60} minutes, {seconds % 60} seconds ]"
