"""Large answers in slices: the broker computes and encodes some rows, serves other connections, and goes on.

    await encode_map(rows)      the JSON object of (key, value) rows, as `encode` writes a map of all of them
    await encode_list(items)    the JSON array of the items

Rows come from a generator, so that computing a row is part of its slice. Tables may change between two slices: a generator takes
a copy of whatever it iterates over, and looks every row up again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from itertools import islice
from typing import Any, Final

from skyrocket.protocol.fastjson.codec import encode

ROWS_PER_SLICE: Final = 200  # about five milliseconds


async def encode_map(rows: Iterable[tuple[Any, Any]]) -> bytes:
    slices = [encode(dict(some))[1:-1] async for some in in_slices(rows)]
    return b"{" + b",".join(slices) + b"}"


async def encode_list(items: Iterable[Any]) -> bytes:
    slices = [encode(some)[1:-1] async for some in in_slices(items)]
    return b"[" + b",".join(slices) + b"]"


async def in_slices(items: Iterable[Any]) -> AsyncIterator[list[Any]]:
    """Yield the items in lists. The loop serves other connections after each list."""
    iterator: Iterator[Any] = iter(items)
    while some := list(islice(iterator, ROWS_PER_SLICE)):
        yield some
        await asyncio.sleep(0)
