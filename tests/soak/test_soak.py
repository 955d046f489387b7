"""A short soak. `make soak` runs twenty minutes of it; SKYROCKET_SOAK_S sets the seconds."""

from __future__ import annotations

import os
from pathlib import Path

from tests.soak.soak import soak

PAUSE_S_MAX = 0.25  # here other tests take the processors; `make soak` allows 0.05
LASTS_S = float(os.environ.get("SKYROCKET_SOAK_S", "30"))


async def test_nothing_is_lost_and_no_bound_is_passed_while_everything_happens_at_once(tmp_path: Path):
    report = await soak(tmp_path, LASTS_S, seed=16, pause_s_max=PAUSE_S_MAX)
    print(report.text())  # noqa: T201 — pytest shows it when the test fails
    assert report.problems == []
    assert report.workloads["messages"]["acknowledged"] > 100, "that says nothing"
