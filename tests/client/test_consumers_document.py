"""Every example of docs/consumers.md runs unchanged but for the nameserver's address. Examples that do not end are cancelled."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from skyrocket.client import Message, Producer
from tests.client.servers import Servers
from tests.support.guide_examples import DOCUMENTS, read_examples, run_example

EXAMPLES = read_examples(DOCUMENTS / "consumers.md")
TOPICS = ("user-registered", "clicks", "orders", "prices")
EXAMPLE_S_MAX = 1.5


@pytest.fixture(scope="module")
def filled(ours: Servers) -> Servers:
    async def fill() -> None:
        async with Producer(ours.nameserver) as producer:
            for topic in TOPICS:
                for number in range(8):
                    await producer.send(Message(topic, b"%d" % number, tag="web", sharding_key="one"))

    asyncio.run(fill())
    return ours


def test_document_has_examples():
    assert len(EXAMPLES) >= 7


@pytest.mark.parametrize("example", EXAMPLES, ids=[re.sub(r"\W+", " ", example)[-40:] for example in EXAMPLES])
def test_example_runs(
    filled: Servers, example: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
):
    text = example.replace("127.0.0.1:9876", filled.nameserver).replace('"offsets"', repr(str(tmp_path)))
    run_example(text, EXAMPLE_S_MAX)
    assert not [record for record in caplog.records if record.levelname == "ERROR"]
    if "print(" in example:
        assert capsys.readouterr().out, "the example printed nothing"
