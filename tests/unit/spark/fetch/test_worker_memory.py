"""A worker of Spark's sets its modules aside once; no other process does."""

from __future__ import annotations

import gc
import sys
from importlib.machinery import ModuleSpec

import pytest

from skyrocket.spark.fetch.worker_memory import set_modules_aside


@pytest.fixture
def main_is(monkeypatch: pytest.MonkeyPatch):
    def make(name: str | None) -> None:
        spec = None if name is None else ModuleSpec(name, None)
        monkeypatch.setattr(sys.modules["__main__"], "__spec__", spec)

    set_modules_aside.cache_clear()
    yield make
    gc.unfreeze()
    set_modules_aside.cache_clear()


def test_what_a_worker_has_at_its_first_task_is_not_looked_at_again(main_is):
    main_is("pyspark.daemon")
    set_modules_aside()
    frozen = gc.get_freeze_count()
    assert frozen > 1000
    kept = [[]]
    set_modules_aside()
    assert gc.get_freeze_count() == frozen, f"only once: {kept} came later"


@pytest.mark.parametrize("name", [None, "pytest", "pyspark.worker"])
def test_a_process_that_is_not_such_a_worker_is_left_as_it_is(main_is, name: str | None):
    before = gc.get_freeze_count()
    main_is(name)
    set_modules_aside()
    assert gc.get_freeze_count() == before
