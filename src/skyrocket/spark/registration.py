"""Making the sources known to a session.

Spark finds them by itself where this package is installed: it looks through the path for modules called `pyspark_*`. To register
them also serves where it does not: with Spark Connect, say, whose server may not have the package.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
import zipfile
from functools import cache
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource

import skyrocket
from skyrocket.spark.data_source import RocketMQ, RocketMQStore

SOURCES: Final[tuple[type[DataSource], ...]] = (RocketMQ, RocketMQStore)


def register(spark: SparkSession, *, ship_code: bool = False) -> SparkSession:
    """Formats "rocketmq" and "rocketmq-store" for this session, which is returned.

    With `ship_code` this package travels with the session's jobs, for clusters whose workers do not have it installed. What it
    needs they must have: pyarrow, numpy, msgspec, lz4, zstandard.
    """
    if ship_code:
        spark.addArtifacts(str(packed_code()), pyfile=True)
    for source in SOURCES:
        spark.dataSource.register(source)
    return spark


@cache
def packed_code() -> Path:
    """This package as Spark's workers can import it. What is compiled stays here: it has its equal in Python."""
    folder = Path(tempfile.mkdtemp(prefix="skyrocket-code-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    package = Path(skyrocket.__file__).parent
    packed = folder / f"skyrocket-{skyrocket.__version__}.zip"
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for source in sorted(package.rglob("*.py")):
            archive.write(source, Path(package.name, source.relative_to(package)))
    return packed
