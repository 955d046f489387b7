"""The examples of the guides: whole programs, which tests run as they stand."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from tests.support.async_tests import run_async

DOCUMENTS = Path(__file__).resolve().parents[2] / "docs"
_EXAMPLE = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


def read_examples(document: Path) -> list[str]:
    """Return the Python blocks of a document."""
    return _EXAMPLE.findall(document.read_text())


def run_example(example: str, limit_s: float | None = None) -> None:
    """Run a program. A program that runs for ever in `asyncio.run` is cancelled there after `limit_s`."""

    async def run_limited(main: Coroutine[Any, Any, object]) -> None:
        limit = asyncio.timeout(limit_s)
        try:
            async with limit:
                await main
        except TimeoutError:
            if not limit.expired():
                raise

    with pytest.MonkeyPatch.context() as patch:

        def run(main: Coroutine[Any, Any, object]) -> None:
            patch.undo()
            run_async(run_limited(main))

        patch.setattr(asyncio, "run", run)
        exec(compile(example, "example.py", "exec", dont_inherit=True), {"__name__": "__main__"})
