"""A broker whose parts fail: it goes on where that is safe, stops loudly where it is not, and always closes its store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from skyrocket.broker.broker import Broker
from skyrocket.broker.delay.timer_checkpointing import TimerCheckpointing
from skyrocket.broker.errors import BrokerBrokenError
from skyrocket.broker.housekeeping import Housekeeping
from skyrocket.broker.nameserver_registration import NameserverRegistration
from skyrocket.broker.persistence import Persistence
from skyrocket.broker.scheduler import Scheduler
from skyrocket.nameserver.nameserver import Nameserver
from skyrocket.nameserver.settings import NameserverSettings
from skyrocket.net.dialer import Dialer
from skyrocket.net.server import Server
from skyrocket.protocol.bodies import TopicConfig
from skyrocket.protocol.command import Command
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from skyrocket.store.errors import StoreIOError, StoreLockedError
from skyrocket.store.flusher import Flusher
from tests.support.brokers.running_broker import SMALL, running, send_header
from tests.support.waiting import WAIT_S_MAX

FAILURES = [StoreIOError("A file operation failed (Input/output error)."), OSError(5, "Input/output error"), ValueError("a bug")]


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_S_MAX):
        while not is_so():  # noqa: ASYNC110 — the parts send no event
            await asyncio.sleep(0.005)


def failing(error: Exception, times: int, then: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that raises `error` the first `times`, and then does what `then` does."""
    left = [times]

    def call(*given: Any, **named: Any) -> Any:
        if left[0] > 0:
            left[0] -= 1
            raise error
        return then(*given, **named)

    return call


@pytest.mark.parametrize("sync_flush", [True, False])
@pytest.mark.parametrize("error", FAILURES, ids=lambda error: type(error).__name__)
async def test_a_waiting_pull_that_cannot_be_read_does_not_stop_flushes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, sync_flush: bool
):
    async with running(tmp_path, sync_flush=sync_flush) as served:
        await served.send("orders", b"0")
        waiting = [asyncio.create_task(served.pull("orders", 1, hold_ms=60_000)) for _ in range(2)]
        await until(lambda: served.broker.pull.waiting == 2)
        reading = served.broker.store.reading
        monkeypatch.setattr(reading, "read_pull", failing(error, 1, reading.read_pull))
        assert (await served.send("orders", b"1")).code == ResponseCode.SUCCESS
        codes = sorted([(await pull).code for pull in waiting])
        assert codes == [ResponseCode.SUCCESS, ResponseCode.SYSTEM_ERROR], "one could not be read, the other one could"
        assert (await served.send("orders", b"2")).code == ResponseCode.SUCCESS
        assert (await served.pull("orders", 2)).code == ResponseCode.SUCCESS


async def test_a_pull_whose_time_is_up_and_that_cannot_be_read_does_not_stop_time_outs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    async with running(tmp_path) as served:
        await served.send("orders", b"0")
        handler = served.broker.pull
        monkeypatch.setattr(handler, "_retry", failing(OSError(5, "Input/output error"), 1, handler._retry))
        first = await served.pull("orders", 1, hold_ms=150)
        assert (first.code, "Input/output error" in (first.remark or "")) == (ResponseCode.SYSTEM_ERROR, True)
        assert (await served.pull("orders", 1, hold_ms=150)).code == ResponseCode.PULL_NOT_FOUND


async def test_housekeeping_goes_on_after_a_step_has_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("skyrocket.broker.broker.SLOW_CHECK_MS", 100)
    async with running(tmp_path) as served:
        calls: list[int] = []
        start_round = failing(OSError(5, "Input/output error"), 2, lambda: calls.append(1))
        monkeypatch.setattr(served.broker._retention, "start_round", start_round)
        await until(lambda: len(calls) >= 1)


async def test_retention_goes_on_after_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr("skyrocket.broker.broker.SLOW_CHECK_MS", 100)
    async with running(tmp_path) as served:
        store, calls = served.broker.store, []
        begin = store.retention.begin
        monkeypatch.setattr(store.retention, "begin", failing(ValueError("a bug"), 1, lambda *_: calls.append(1) or begin(*_)))
        await until(lambda: len(calls) >= 1)
        monkeypatch.undo()
    assert "A round of retention failed unexpectedly" in caplog.text


async def test_registration_goes_on_after_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    nameserver = Nameserver(NameserverSettings().with_texts({"listenPort": "0", "kvConfigPath": str(tmp_path / "kv.json")}))
    await nameserver.start()
    async with running(tmp_path, namesrv_addr=nameserver.address, register_interval_ms=10_000) as served:
        registration = served.broker._registration
        monkeypatch.setattr(registration, "_topics", failing(ValueError("a bug"), 1, registration._topics))
        await served.send("orders", b"x")
        await served.send("bills", b"x")
        await until(lambda: nameserver.table.route("bills") is not None)
    await nameserver.close()


async def test_a_nameserver_goes_on_removing_silent_brokers_after_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    texts = {"listenPort": "0", "kvConfigPath": str(tmp_path / "kv.json")}
    nameserver = Nameserver(replace(NameserverSettings().with_texts(texts), scan_interval_ms=10))
    calls: list[int] = []
    monkeypatch.setattr(
        nameserver.table, "remove_silent", failing(ValueError("a bug"), 1, lambda now_ms: calls.append(now_ms) or [])
    )
    await nameserver.start()
    await until(lambda: len(calls) >= 2)
    await nameserver.close()


async def test_saving_goes_on_after_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    async with running(tmp_path, offsets_interval_ms=20) as served:
        saved: list[int] = []

        async def save() -> None:
            saved.append(1)

        monkeypatch.setattr(served.broker.persistence, "_save_progress", failing(ValueError("a bug"), 1, save))
        await until(lambda: len(saved) >= 1)
        monkeypatch.undo()


async def test_a_flusher_that_fails_unexpectedly_stops_the_broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    async with running(tmp_path, sync_flush=True) as served:
        await served.send("orders", b"0")
        monkeypatch.setattr(served.broker.store, "begin_flush", failing(ValueError("a bug"), 1, lambda: None))
        served.broker._flusher.on_append()
        with pytest.raises(BrokerBrokenError, match=r"cannot flush messages any more.*a bug"):
            await served.broker.run_until(asyncio.Event())
        refused = await served.send("orders", b"1")
        assert (refused.code, "a bug" in (refused.remark or "")) == (ResponseCode.SERVICE_NOT_AVAILABLE, True)
        monkeypatch.undo()


async def test_a_request_whose_handler_fails_after_waiting_is_answered(tmp_path: Path):
    async def fail_later(_command: Command, _connection: object) -> None:
        await asyncio.sleep(0)
        raise ValueError("a bug")

    async with running(tmp_path) as served:
        served.broker.router.add(9_999, fail_later)
        answer = await served.ask(9_999)
        assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, "a bug")


async def test_a_broker_runs_until_it_is_stopped(tmp_path: Path):
    async with running(tmp_path) as served:
        stopped = asyncio.Event()
        serving = asyncio.create_task(served.broker.run_until(stopped))
        await asyncio.sleep(0)
        assert not serving.done()
        stopped.set()
        await serving


PARTS = [NameserverRegistration, Housekeeping, Scheduler, TimerCheckpointing, Server, Flusher, Persistence, Dialer]


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.__name__)
async def test_the_store_is_closed_whatever_part_fails_to_close(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: type[Any]):
    close = part.close

    async def close_and_fail(self: Any) -> None:
        await close(self)
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(part, "close", close_and_fail)
    broker = Broker(replace(SMALL, store_path=str(tmp_path / "store")))
    await broker.start()
    dialer = Dialer()
    header = send_header("orders").to_fields()
    await dialer.request(broker.settings().address, Command(RequestCode.SEND_MESSAGE_V2, fields=header, body=b"0"))
    with pytest.raises(OSError, match="Input/output error"):
        await broker.close()
    monkeypatch.undo()
    await dialer.close()
    async with running(tmp_path) as again:
        assert (await again.pull("orders", 0)).code == ResponseCode.SUCCESS, "the lock is free and the message is there"


async def test_a_broker_that_could_not_open_its_store_changes_nothing_when_it_closes(tmp_path: Path):
    async with running(tmp_path) as served:
        served.broker.topics.put(TopicConfig(topic_name="orders"))
        await served.broker.persistence.saver.wait_until_saved()
        topics = tmp_path / "store" / "config" / "topics.json"
        before = topics.read_bytes()
        second = Broker(replace(SMALL, store_path=str(tmp_path / "store")))
        with pytest.raises(StoreLockedError):
            await second.start()
        await second.close()
        assert topics.read_bytes() == before
