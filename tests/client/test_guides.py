"""Every example of the guides runs unchanged but for addresses and files. Examples that do not end are cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from skyrocket.client import Message, Producer
from tests.client.servers import Servers, our_servers
from tests.support.guide_examples import DOCUMENTS, read_examples, run_example

GUIDES = ("quick-start.md", "at-least-once.md", "tracing.md")
EXAMPLE_S_MAX = 1.5


def examples() -> Iterator[object]:
    for guide in GUIDES:
        for number, example in enumerate(read_examples(DOCUMENTS / guide)):
            yield pytest.param(example, id=f"{guide}-{number}")


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    async def fill(servers: Servers) -> None:
        async with Producer(servers.nameserver) as producer:
            for number in range(8):
                await producer.send(Message("user-registered", b"%d" % number, tag="web", keys=[f"u-{number}"]))

    with our_servers(tmp_path_factory.mktemp("guides")) as servers:
        asyncio.run(fill(servers))
        yield servers


@pytest.mark.parametrize("example", list(examples()))
def test_example_runs(
    filled: Servers,
    example: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
):
    monkeypatch.chdir(tmp_path)
    run_example(example.replace("127.0.0.1:9876", filled.nameserver), EXAMPLE_S_MAX)
    assert not [record for record in caplog.records if record.levelname == "ERROR"]
    assert capsys.readouterr().out, "the example printed nothing"
