"""Tools that some tests need and some machines lack. A person's machine skips and says why; CI fails."""

from __future__ import annotations

import os
import shutil

import pytest


def need(*tools: str) -> None:
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if not missing:
        return
    reason = f"needs {', '.join(missing)}, which this machine does not have"
    if os.environ.get("CI") == "true":
        pytest.fail(f"this test {reason}; CI must have it (.ci/install)")
    pytest.skip(reason)
