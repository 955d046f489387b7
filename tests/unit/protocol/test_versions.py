"""Versions as people read them."""

from __future__ import annotations

import pytest

from skyrocket.protocol import versions


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (versions.V4_0_0, "4.0.0"),
        (versions.V4_9_3, "4.9.3"),
        (versions.V4_9_8, "4.9.8"),
        (versions.V5_0_0, "5.0.0"),
        (versions.V5_3_0, "5.3.0"),
        (versions.V5_5_0, "5.5.0"),
        (versions.V5_5_0 - 1, "5.5.0-SNAPSHOT"),
        (versions.V3_5_8, "137"),
        (0, "0"),
    ],
)
def test_a_version_has_a_text(number: int, text: str):
    assert versions.version_text(number) == text
