"""Names of a package that are imported from its modules on first use (PEP 562).

A package with many public names would otherwise import all its modules with the first of them: a program that only sends messages
would import consumers and administration, and so would each Python process that Spark starts.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any


def lazy_names(
    namespace: dict[str, Any], modules: Mapping[str, tuple[str, ...]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package. `namespace` is its `globals()`, `modules` lists the names by module.

    The package also imports the names under `TYPE_CHECKING`, for type checkers, and lists them in `__all__`.
    """
    package = namespace["__name__"]
    module_of = {name: module for module, names in modules.items() for name in names}

    def import_name(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = getattr(importlib.import_module(f"{package}.{module_of[name]}"), name)
        namespace[name] = found  # later accesses find it there
        return found

    def list_names() -> list[str]:
        return sorted({*namespace, *module_of})

    return import_name, list_names
