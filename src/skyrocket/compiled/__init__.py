"""Compiled twins: C code, written in Cython, that does what a few Python functions do, byte for byte, in a fraction of the time.

The Python function is the reference: it says what happens, and it happens so wherever its twin was not built (no Cython, no C
compiler) or SKYROCKET_PURE=1 leaves the twins aside. A reference names its twin where it is defined:

    def _queue_entries(...): ...

    queue_entries = twin("entries", _queue_entries)      # queue_entries of entries.pyx, beside this file

A twin may be given anything. Lengths that it reads are checked against the bytes that are there; what it does not know how to do
it leaves to its reference, as the two have agreed. `hatch_build.py` builds them; docs/broker.md tells more.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final, NamedTuple, TypeVar

PURE: Final = os.environ.get("SKYROCKET_PURE", "") not in ("", "0")  # leaves the twins aside

F = TypeVar("F", bound=Callable[..., Any])


class Twins(NamedTuple):
    reference: Callable[..., Any]
    compiled: Callable[..., Any]


TWINS: Final[dict[str, Twins]] = {}  # by the name under which it is used; what was asked for so far, and was built


def twin(module: str, reference: F) -> F:
    """The compiled twin of a function, from a module of this package; the function itself where there is none."""
    name = reference.__name__.removeprefix("_")
    try:
        built = import_module(f"skyrocket.compiled.{module}")
    except ModuleNotFoundError as error:
        if error.name != f"skyrocket.compiled.{module}":
            raise
        return reference
    if not hasattr(built, name):
        raise ImportError(f"{built.__file__} has no {name}: it is older than its source. `make setup` builds it anew.")
    compiled: F = getattr(built, name)
    TWINS[f"{module}.{name}"] = Twins(reference, compiled)
    return reference if PURE else compiled


def kind() -> str:
    """What runs here, in a word: "compiled", or "pure Python"."""
    is_built = find_spec("skyrocket.compiled.frames") is not None  # all are, or none
    return "compiled" if is_built and not PURE else "pure Python"
