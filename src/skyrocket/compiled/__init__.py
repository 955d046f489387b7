"""Compiled twins: C code, written in Cython, that does what a few Python functions do, byte for byte, in a fraction of the time.

The Python function is the reference. It runs wherever its twin was not built (no Cython, no C compiler), and wherever
SKYROCKET_PURE=1 turns the twins off. A reference names its twin where it is defined:

    def _pack_queue_entries(...): ...

    pack_queue_entries = twin("dispatch_entries", _pack_queue_entries)      # of dispatch_entries.pyx, beside this file

The docstring of a `.pyx` file names the modules of its references. A twin takes any input: it checks every length that it reads
against the bytes that are there, and leaves rare cases to its reference. `hatch_build.py` builds the twins.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from skyrocket.compiled.source_digest import source_digest

PURE: Final = os.environ.get("SKYROCKET_PURE", "") not in ("", "0")  # leaves the twins aside

F = TypeVar("F", bound=Callable[..., Any])


class Twins(NamedTuple):
    reference: Callable[..., Any]
    compiled: Callable[..., Any]


TWINS: Final[dict[str, Twins]] = {}  # by the name under which it is used; what was asked for so far, and was built


def twin(module: str, reference: F) -> F:
    """Return the compiled twin of a function, from a module of this package, or the function itself where no twin was built.

    A module that was built from other sources than those beside it is not used.
    """
    name = reference.__name__.removeprefix("_")
    try:
        built = import_module(f"skyrocket.compiled.{module}")
    except ModuleNotFoundError as error:
        if error.name != f"skyrocket.compiled.{module}":
            raise
        return reference
    if is_stale(module, built.SOURCE_DIGEST):
        text = f"{built.__file__} was built from other sources and is not used: skyrocket runs in pure Python. Run make setup."
        warnings.warn(text, RuntimeWarning, stacklevel=2)
        return reference
    compiled: F = getattr(built, name)
    TWINS[f"{module}.{name}"] = Twins(reference, compiled)
    return reference if PURE else compiled


def is_stale(module: str, digest: str) -> bool:
    """Whether a module with this digest was built from other sources. A wheel without sources has nothing to compare."""
    wanted = source_digest(Path(__file__).with_name(f"{module}.pyx"))
    return wanted is not None and digest != wanted


def kind() -> str:
    """Return what runs here: "compiled", or "pure Python"."""
    is_built = find_spec("skyrocket.compiled.frame") is not None  # all modules are built, or none
    return "compiled" if is_built and not PURE else "pure Python"
