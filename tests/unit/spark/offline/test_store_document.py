"""docs/spark.md has a row for every option of the offline source."""

from __future__ import annotations

from pathlib import Path

import pytest

from skyrocket.spark.options.store_options import STORE_OPTIONS

DOCUMENT = (Path(__file__).resolve().parents[4] / "docs" / "spark.md").read_text()
SECTION = DOCUMENT[DOCUMENT.index("\n## Offline\n") :].split("\n## ")[1]
NAMES = [row.split("|")[1] for row in SECTION.splitlines() if row.startswith("| `")]


@pytest.mark.parametrize("option", list(STORE_OPTIONS), ids=lambda option: option.name)
def test_every_option_has_a_row(option):
    assert any(f"`{option.name}`" in cell for cell in NAMES)
