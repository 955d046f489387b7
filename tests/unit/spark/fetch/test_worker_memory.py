"""A Spark worker freezes its modules once; no other process does."""

from __future__ import annotations

import gc
import sys
from importlib.machinery import ModuleSpec

import pytest

from skyrocket.spark.fetch.worker_memory import freeze_modules


@pytest.fixture
def main_is(monkeypatch: pytest.MonkeyPatch):
    def make(name: str | None) -> None:
        spec = None if name is None else ModuleSpec(name, None)
        monkeypatch.setattr(sys.modules["__main__"], "__spec__", spec)

    freeze_modules.cache_clear()
    yield make
    gc.unfreeze()
    freeze_modules.cache_clear()


def test_worker_freezes_its_objects_at_the_first_task_only(main_is):
    main_is("pyspark.daemon")
    freeze_modules()
    frozen = gc.get_freeze_count()
    assert frozen > 1000
    kept = [[]]
    freeze_modules()
    assert gc.get_freeze_count() == frozen, f"only once: {kept} is newer"


@pytest.mark.parametrize("name", [None, "pytest", "pyspark.worker"])
def test_other_process_freezes_nothing(main_is, name: str | None):
    before = gc.get_freeze_count()
    main_is(name)
    freeze_modules()
    assert gc.get_freeze_count() == before
