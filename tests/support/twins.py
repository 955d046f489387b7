"""Run a test once with the compiled twins and once with their Python references."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import skyrocket.broker
import skyrocket.protocol
import skyrocket.store
from skyrocket.compiled import TWINS

for package in (skyrocket.protocol, skyrocket.store, skyrocket.broker):
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        importlib.import_module(found.name)

KINDS = ["compiled", "reference"] if TWINS else ["reference"]

needs_twins = pytest.mark.skipif(not TWINS, reason="the compiled twins are not built")


@contextmanager
def using(kind: str) -> Iterator[None]:
    """Make every module use this kind of each twin: compiled or reference."""
    changed = []
    for twins in TWINS.values():
        used, unused = (twins.reference, twins.compiled) if kind == "reference" else (twins.compiled, twins.reference)
        for module in [module for name, module in sys.modules.items() if name.startswith("skyrocket.")]:
            for name, value in list(vars(module).items()):
                if value is unused and not name.startswith("_"):
                    setattr(module, name, used)
                    changed.append((module, name, unused))
    try:
        yield
    finally:
        for module, name, value in changed:
            setattr(module, name, value)
