"""A benchmark for tests: two figures, and then what SAMPLE_PART says: it ends, fails or hangs."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator

from bench import Figure


def figures() -> Iterator[Figure]:
    tempfile.mkdtemp()  # left behind
    yield Figure("one queue", "5.00 µs", "1.00 of the first")
    yield Figure("10,000 queues", "5.50 µs", "1.10 of the first")
    if os.environ["SAMPLE_PART"] == "fails":
        raise AssertionError("the broker closed a connection")
    if os.environ["SAMPLE_PART"] == "hangs":
        time.sleep(3600)
