"""Run a test once with the compiled twins and once with their Python references."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import NamedTuple

import pytest

import skyrocket.broker
import skyrocket.protocol
import skyrocket.store
from skyrocket.compiled import TWINS, Twins

for package in (skyrocket.protocol, skyrocket.store, skyrocket.broker):
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        importlib.import_module(found.name)

KINDS = ["compiled", "reference"] if TWINS else ["reference"]

needs_twins = pytest.mark.skipif(not TWINS, reason="the compiled twins are not built")


class _Use(NamedTuple):
    """A name of a module that stands for a twin, or for its reference."""

    module: ModuleType
    name: str
    twins: Twins


_uses: tuple[int, list[_Use]] = (0, [])  # the number of modules at the last look, and what it found


def _find_uses() -> list[_Use]:
    """Look through all names of all modules. A property test asks for each example: look again only after an import."""
    global _uses  # noqa: PLW0603 — a cache
    if _uses[0] != len(sys.modules):
        twins_of = {id(function): twins for twins in TWINS.values() for function in twins}
        modules = [module for name, module in list(sys.modules.items()) if name.startswith("skyrocket.")]
        names = ((module, name, value) for module in modules for name, value in vars(module).items() if name[0] != "_")
        found = [_Use(module, name, twins_of[id(value)]) for module, name, value in names if id(value) in twins_of]
        _uses = (len(sys.modules), found)
    return _uses[1]


@contextmanager
def using(kind: str) -> Iterator[None]:
    """Make every module use this kind of each twin: compiled or reference."""
    changed = []
    for module, name, twins in _find_uses():
        used, unused = (twins.reference, twins.compiled) if kind == "reference" else (twins.compiled, twins.reference)
        if getattr(module, name) is unused:
            setattr(module, name, used)
            changed.append((module, name, unused))
    try:
        yield
    finally:
        for module, name, value in changed:
            setattr(module, name, value)
