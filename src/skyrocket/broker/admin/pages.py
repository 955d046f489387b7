"""A table page by page, for whoever asks so: names in order, from a number on, as long as the table stays the same."""

from __future__ import annotations

from collections.abc import Iterable

from skyrocket.broker.limits import PAGE_MAX
from skyrocket.protocol.bodies import DataVersion
from skyrocket.protocol.fastjson.codec import decode


def page(names: Iterable[str], version: DataVersion, seen_version: str | None, start: int | None, count: int | None) -> list[str]:
    """`seen_version` is the table's version on the last page, as JSON; after a change one starts over."""
    is_same = bool(seen_version and seen_version.strip()) and decode((seen_version or "").encode(), DataVersion) == version
    first = max(start or 0, 0) if is_same else 0
    most = min(PAGE_MAX, PAGE_MAX if count is None else max(count, 0))
    return sorted(names)[first : first + most]
