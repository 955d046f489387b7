"""`import skyrocket.client` is quick: programs that only send a message start at once."""

from __future__ import annotations

from pathlib import Path

from tests.support.startup import costs_less_than, imported_by

NOT_FOR_CLIENTS = {"http.client", "numpy", "opentelemetry", "pyarrow", "pydantic", "pyspark", "redis", "rich", "sqlite3", "typer"}
OTHER_PARTS = {
    "skyrocket.broker",
    "skyrocket.cli",
    "skyrocket.nameserver",
    "skyrocket.spark",
    "skyrocket.store",
    "skyrocket.testing",
}


def test_client_imports_no_heavy_library_and_no_other_part():
    assert imported_by("import skyrocket.client") & (NOT_FOR_CLIENTS | OTHER_PARTS) == set()


def test_client_import_costs_less_than_three_times_the_import_of_asyncio(tmp_path: Path):
    """About 0.12 s beside 0.05 s; the limit is what keeps it below 0.15 s."""
    assert costs_less_than(3, ["-c", "import skyrocket.client"], baseline=["-c", "import asyncio, ssl"], cache=tmp_path)
