"""Every example of docs/admin.md runs, and its table lists all methods."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
from pathlib import Path

import pytest

from skyrocket.client.admin.admin import ClusterAdmin, GroupAdmin, MessageAdmin, OffsetAdmin, TopicAdmin
from tests.client.servers import Servers
from tests.support.async_tests import run_async
from tests.support.waiting import WAIT_S_MAX

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "admin.md"
TEXT = DOCUMENT.read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
PARTS = {
    "topics": TopicAdmin,
    "groups": GroupAdmin,
    "offsets": OffsetAdmin,
    "messages": MessageAdmin,
    "cluster": ClusterAdmin,
}


@pytest.mark.parametrize("example", EXAMPLES, ids=["first", "rooms", "sync"])
def test_example_runs(ours: Servers, example: str, capsys: pytest.CaptureFixture[str]):
    text = example.replace("127.0.0.1:9876", ours.nameserver)
    code = compile(text, str(DOCUMENT), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    if code.co_flags & inspect.CO_COROUTINE:

        async def main() -> None:
            async with asyncio.timeout(WAIT_S_MAX):
                await eval(code, {})

        run_async(main())
    else:
        exec(code, {})
    assert capsys.readouterr().out


@pytest.mark.parametrize("part", PARTS)
def test_table_lists_every_method(part: str):
    (row,) = re.findall(rf"^\| `admin\.{part}` \| (.*) \|$", TEXT, re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", row)) == {name for name in vars(PARTS[part]) if not name.startswith("_")}
