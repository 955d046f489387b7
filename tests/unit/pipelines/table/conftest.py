"""A place for a table of each kind: PostgreSQL is a real server, which all tests of a file share."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.pipelines.table_targets import Place, delta_place, iceberg_place, postgresql_place
from tests.support.processes.postgres_server import postgres_server

_NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def postgresql() -> Iterator[str]:
    with postgres_server() as address:
        yield address


@pytest.fixture(params=["postgresql", "delta", "iceberg"])
def new_place(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Place]:
    """A function that returns a place that no table has been made at."""

    def make() -> Place:
        number = next(_NUMBERS)
        if request.param == "delta":
            return delta_place(tmp_path / f"t{number}")
        if request.param == "iceberg":
            return iceberg_place(tmp_path / "catalog", f"t{number}")
        return postgresql_place(request.getfixturevalue("postgresql"), f"t{number}")

    return make


@pytest.fixture
def place(new_place: Callable[[], Place]) -> Place:
    return new_place()
