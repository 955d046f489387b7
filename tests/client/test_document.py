"""Every example of docs/client.md runs as it stands, with the nameserver's address put in."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
from pathlib import Path

import pytest

from tests.client.servers import Servers

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "client.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)


def test_there_are_examples():
    assert len(EXAMPLES) >= 7


@pytest.mark.parametrize("example", EXAMPLES, ids=[re.sub(r"\W+", " ", example)[-40:] for example in EXAMPLES])
def test_an_example_runs(ours: Servers, example: str, capsys: pytest.CaptureFixture[str]):
    code = compile(
        example.replace("127.0.0.1:9876", ours.nameserver), str(DOCUMENT), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    )
    names: dict[str, object] = {}
    if code.co_flags & inspect.CO_COROUTINE:

        async def main() -> None:
            await eval(code, names)

        asyncio.run(main())
    else:
        exec(code, names)
