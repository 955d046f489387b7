"""A broker of its own for a test that kills it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.skyrocket_process import Skyrocket


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Skyrocket]:
    """It flushes before it acknowledges."""
    with Skyrocket(tmp_path / "broker", {"flushDiskType": "SYNC_FLUSH"}) as made:
        yield made
