"""The Iceberg catalog of a folder: PyIceberg's SqlCatalog over a SQLite file. No server is needed.

    FOLDER/catalog.db     the catalog, with the namespace `skyrocket`
    FOLDER/skyrocket/…    its tables

SQLite takes one writer at a time, and so do our jobs: each holds a lock on its table. Other programs read through the same file,
or register a table's newest metadata file with a catalog of theirs.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from skyrocket.durable_file import make_directory
from skyrocket.pipelines.errors import ArgumentError, TargetError

CATALOG: Final = "catalog.db"
NAMESPACE: Final = "skyrocket"
# PyIceberg repeats a commit that met another one, and could so commit a batch twice. With this, it fails instead.
PROPERTIES: Final = {"commit.retry.num-retries": "0"}


def import_iceberg() -> Any:
    """Import PyIceberg, which only Iceberg tables need."""
    try:
        import pyiceberg.catalog.sql  # noqa: PLC0415
        import pyiceberg.exceptions  # noqa: PLC0415
        import pyiceberg.expressions  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise ArgumentError(
            "An Iceberg table needs the package pyiceberg. Install it with: pip install 'skyrocketmq[pipelines]'"
        ) from error
    return pyiceberg


def open_catalog(folder: Path, *, create: bool) -> Any:
    """Open the catalog of a folder. Return None if there is none and none is to be created."""
    iceberg = import_iceberg()
    if not (folder / CATALOG).exists():
        if not create:
            return None
        make_directory(folder)
    found = iceberg.catalog.sql.SqlCatalog(
        NAMESPACE, uri=f"sqlite:///{folder / CATALOG}", warehouse=f"file://{folder}", init_catalog_tables="true"
    )
    if create:
        found.create_namespace_if_not_exists(NAMESPACE)
    return found


def close_catalog(catalog: Any) -> None:
    """Close the connections to the SQLite file."""
    if catalog is not None:
        catalog.engine.dispose()


@contextmanager
def one_sentence(name: str) -> Iterator[None]:
    """Turn an error of PyIceberg into a TargetError, and keep quiet about rows to replace that are not there."""
    exceptions = import_iceberg().exceptions
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Delete operation did not match any records")
            yield
    except (exceptions.CommitFailedException, exceptions.NoSuchTableError, exceptions.ValidationError) as error:
        raise TargetError(f"{name}: {str(error).strip().splitlines()[0]}") from error
