"""The broker scrubs its log in the background, slowly, and reports what it finds."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from pathlib import Path

import pytest

from skyrocket.broker import scrubbing
from skyrocket.broker.scrubbing import Scrubbing
from skyrocket.broker.settings import BrokerSettings
from skyrocket.protocol.bodies import KVTable
from skyrocket.protocol.fastjson.codec import decode
from skyrocket.protocol.requests import RequestCode
from skyrocket.store.files import Disk
from skyrocket.store.message_store import MessageStore
from skyrocket.store.offline.verify import verify
from tests.support.brokers.running_broker import running
from tests.support.stores.store_messages import SMALL, START_MS, expire_oldest, numbered

NOW_MS = START_MS + 9_000


def a_store(path: Path) -> MessageStore:
    store = MessageStore(path, replace(SMALL, segment_bytes=64 * 1024, index_enabled=False))
    store.open()
    for first in range(0, 300, 10):
        store.append(numbered(10, first=first, body_bytes=700), START_MS + first)
    store.flush()
    store.checkpoint()
    return store


def damage(path: Path, at: int) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(b"damaged")


class Sleeps(list[float]):
    async def __call__(self, seconds: float) -> None:
        self.append(seconds)
        await asyncio.sleep(0)


async def test_damage_is_logged_once_and_counted_in_every_round(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(scrubbing, "PIECE_BYTES", 4096)
    store = a_store(tmp_path)
    damage(tmp_path / "commitlog/00000000000000000000", 5_000)
    settings = BrokerSettings(scrub_bytes_per_second=8192)
    slept = Sleeps()
    scrub = Scrubbing(store, Disk(), lambda: settings, lambda: NOW_MS, slept)
    with caplog.at_level(logging.ERROR):
        await scrub.run_round()
        await scrub.run_round()
    (expected,) = [str(one) for one in verify(tmp_path) if one.path.startswith("commitlog/") and "cannot be read" in one.problem]
    assert caplog.messages == [f"DAMAGE found by scrubbing: {expected}"]
    assert list(map(str, scrub.findings)) == [expected]
    figures = scrub.figures()
    assert (figures["scrubRounds"], figures["scrubDamagedRanges"]) == ("2", "1")
    assert figures["scrubLastRoundTimestamp"] == str(NOW_MS)
    closed_bytes = store.log.segments.starts[-1]
    assert sum(slept) >= 2 * 0.9 * closed_bytes / 8192, "no faster than the setting allows"
    store.close()


async def test_a_segment_that_expires_meanwhile_is_no_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(scrubbing, "PIECE_BYTES", 4096)
    store = a_store(tmp_path)

    async def expire(_seconds: float) -> None:
        expire_oldest(store)

    scrub = Scrubbing(store, Disk(), BrokerSettings, lambda: NOW_MS, expire)
    with caplog.at_level(logging.ERROR):
        await scrub.run_round()
    assert caplog.messages == []
    assert scrub.figures()["scrubRounds"] == "1"
    store.close()


async def test_a_running_broker_scrubs_and_shows_it(tmp_path: Path):
    async with running(tmp_path, segment_bytes=64 * 1024, sync_flush=True) as served:
        for number in range(20):
            await served.send("orders", b"%d" % number + bytes(8_000))
        await served.broker._scrubbing.run_round()
        table = decode((await served.ask(RequestCode.GET_BROKER_RUNTIME_INFO)).body, KVTable).table
        assert int(table["scrubRounds"]) >= 1
        assert table["scrubDamagedRanges"] == "0"
        assert int(table["scrubPosition"]) > 0
