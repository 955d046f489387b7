"""`python -m tools.console_pictures`: take the pictures of the console in docs/pictures, with a real Chromium.

A broker with sample topics, groups and dead letters runs in this process. Look at the pictures after a change of the templates
or the style sheet of `skyrocket/console`.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, Literal, NamedTuple

from playwright.async_api import Browser, ViewportSize, async_playwright

from skyrocket.client import Admin, ClientOptions, Consumer, Message, Producer
from skyrocket.console.clusters import ConsoleCluster
from skyrocket.console.server import ConsoleOptions, ConsoleServer
from skyrocket.testing import LocalBroker
from tools.report_pictures import FOLDER, find_chromium

WIDTH: Final = 1280
TELEPHONE_WIDTH: Final = 390
SWEEP_S: Final = 2.0
MEASURED: Final = {"metricsExporterType": "PROM", "metricsPromExporterPort": "0"}  # with the times of stages
UNREACHABLE: Final = "127.0.0.1:1"
HISTORY_S: Final = 21.0  # so that charts have some points


class Picture(NamedTuple):
    name: str
    path: str
    scheme: Literal["light", "dark"]
    width: int = WIDTH
    height: int = 900
    click: str = ""  # a link on the page that leads to what is shown


PICTURES: Final = (
    Picture("clusters-light", "/", "light", height=420),
    Picture("overview-light", "/c/shop/", "light", height=1750),
    Picture("cluster-light", "/c/shop/cluster", "light"),
    Picture("broker-dark", "/c/shop/cluster", "dark", height=1100, click="td a"),
    Picture("topics-light", "/c/shop/topics", "light"),
    Picture("topic-dark", "/c/shop/topics/orders", "dark", height=1500),
    Picture("groups-dark", "/c/shop/groups", "dark"),
    Picture("group-dark", "/c/shop/groups/coupons", "dark", height=1100),
    Picture("reset-light", "/c/shop/groups/audit/reset?topic=orders&to=last", "light"),
    Picture("messages-light", "/c/shop/messages?topic=orders", "light"),
    Picture("dead-letters-light", "/c/shop/dead-letters/billing", "light"),
    Picture("waiting-dark", "/c/shop/waiting", "dark"),
    Picture("access-light", "/c/shop/access", "light"),
    Picture("doctor-light", "/c/shop/doctor", "light", height=980),
    Picture("overview-dark", "/c/shop/", "dark", height=1900),  # with what the doctor found
    Picture("message-light", "/c/shop/messages?topic=orders", "light", height=1200, click="td a"),
    Picture("topics-telephone", "/c/shop/topics", "dark", TELEPHONE_WIDTH, 844),
    Picture("doctor-telephone", "/c/shop/doctor?group=audit", "light", TELEPHONE_WIDTH, 844),
)


async def fill(nameserver: str) -> None:
    """Make a shop's topics, groups and messages."""
    async with Admin(nameserver) as admin, Producer(nameserver) as producer:
        for name, kind in (("orders", "NORMAL"), ("bills", "FIFO"), ("reminders", "DELAY"), ("sign-ups", "NORMAL")):
            await admin.topics.create(name, queues=4, attributes={"message.type": kind})
        for group in ("audit", "coupons", "sms"):
            await admin.groups.create(group)
            await admin.offsets.reset(group, "orders", "first")
        await admin.groups.create("billing", retries_max=0)
        await admin.groups.create("sms", enabled=False)
        for number in range(60):
            body = f'{{"order": {1000 + number}, "total": {number * 7 % 90}.50, "currency": "EUR"}}'
            await producer.send(Message("orders", body.encode(), tag="paid" if number % 3 else "open", keys=f"o-{1000 + number}"))
        for number in range(5):
            await producer.send(Message("bills", f"bill {number}".encode(), keys=f"b-{number}", sharding_key="shop-3"))
        for level in (5, 9, 14):
            await producer.send(Message("reminders", b"soon", delay_level=level))


@asynccontextmanager
async def consumers(nameserver: str) -> AsyncIterator[None]:
    """Two members of a group that agree, and one of another that fails."""
    options = ClientOptions(nameserver)
    one = Consumer(options=options, group="coupons", start="first", instance="one")
    two = Consumer(options=options, group="coupons", start="first", instance="two")
    failing = Consumer(options=options, group="billing", start="first", instance="three", retries_max=0)

    for consumer in (one, two):

        @consumer.on("orders")
        async def consume(_message: object) -> None:
            await asyncio.sleep(0)

    @failing.on("bills")
    async def fail(_message: object) -> None:
        raise ValueError("This consumer fails on purpose.")

    async with one, two, failing:
        yield


async def produce(producer: Producer) -> None:
    """Send messages at a rate that changes, until the task is cancelled."""
    for number in itertools.count():
        for _ in range(1 + number % 30):
            await producer.send(Message("sign-ups", b"hello"))
        await asyncio.sleep(0.1)


async def take(browser: Browser, url: str, picture: Picture) -> None:
    size = ViewportSize(width=picture.width, height=picture.height)
    context = await browser.new_context(base_url=url, viewport=size, color_scheme=picture.scheme)
    page = await context.new_page()
    await page.goto(picture.path)
    if picture.click:
        await page.locator(picture.click).first.click()
    await page.locator("[data-soon]").wait_for(state="detached")  # the doctor has ended
    await page.screenshot(path=FOLDER / f"console-{picture.name}.png")
    await context.close()


async def main() -> None:
    """Take all pictures."""
    chromium = find_chromium()
    if chromium is None:
        raise SystemExit("There is no Chromium here. On Debian, install it with: apt-get install chromium")
    async with LocalBroker(MEASURED) as broker, LocalBroker() as other:
        await fill(broker.nameserver)
        clusters = [
            ConsoleCluster(name, f"--cluster {name}", ClientOptions(nameserver))
            for name, nameserver in (("shop", broker.nameserver), ("stage", other.nameserver), ("archive", UNREACHABLE))
        ]
        options = ConsoleOptions(clusters=tuple(clusters), port=0)
        async with consumers(broker.nameserver), ConsoleServer(options) as console, Producer(broker.nameserver) as producer:
            load = asyncio.create_task(produce(producer))
            await asyncio.sleep(HISTORY_S)
            async with async_playwright() as playwright:
                browser = await playwright.chromium.launch(executable_path=Path(chromium))
                await take(browser, console.url, PICTURES[1])  # starts the sweep over the groups
                await asyncio.sleep(SWEEP_S)
                for picture in PICTURES:
                    await take(browser, console.url, picture)
                await browser.close()
            load.cancel()
            await asyncio.gather(load, return_exceptions=True)


if __name__ == "__main__":
    asyncio.run(main())
