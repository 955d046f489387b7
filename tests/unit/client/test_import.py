"""`import skyrocket.client` is quick, since each public name is imported on first use."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from tests.support.startup import costs_less_than, imported_by

NOT_FOR_CLIENTS = {"http.client", "numpy", "opentelemetry", "pyarrow", "pydantic", "pyspark", "redis", "rich", "sqlite3", "typer"}
NOT_FOR_CLIENTS |= {f"skyrocket.{part}" for part in ("broker", "cli", "columnar", "nameserver", "spark", "store", "testing")}

ASYNCIO = ["-c", "import asyncio, ssl"]  # about 0.05 s of CPU: a client needs both


def test_client_imports_no_heavy_library_and_no_other_part():
    assert imported_by("from skyrocket.client import *") & NOT_FOR_CLIENTS == set()


def test_producer_imports_neither_consumers_nor_administration():
    modules = imported_by("from skyrocket.client import Message, Producer")
    assert (
        modules & {"skyrocket.client.consumer.consumer", "skyrocket.client.admin", "skyrocket.client.helpers.deduplication"}
        == set()
    )


def test_client_import_costs_less_than_the_import_of_asyncio(tmp_path: Path):
    assert costs_less_than(1, ["-c", "import skyrocket.client"], baseline=ASYNCIO, cache=tmp_path)


def test_import_of_producer_and_consumer_costs_less_than_three_times_that_of_asyncio(tmp_path: Path):
    """About 0.12 s; the limit is 0.15 s."""
    assert costs_less_than(3, ["-c", "from skyrocket.client import Consumer, Producer"], baseline=ASYNCIO, cache=tmp_path)


@pytest.mark.parametrize("package", ["skyrocket.client", "skyrocket.client.helpers"])
def test_each_listed_name_can_be_imported(package: str):
    module = importlib.import_module(package)
    for name in module.__all__:
        assert getattr(module, name).__name__ == name
    assert set(module.__all__) <= set(dir(module))


def test_unknown_name_raises_the_usual_error():
    with pytest.raises(AttributeError, match=r"module 'skyrocket\.client' has no attribute 'Produser'"):
        importlib.import_module("skyrocket.client").Produser  # noqa: B018
