"""Registers the data sources with a Spark session.

Where this package is installed, Spark finds the sources without registration: it scans the path for modules named `pyspark_*`.
Registration is needed where the Spark server does not have the package, for example with Spark Connect.
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
from skyrocket.spark.session.stream_errors import shorten_stream_errors

SOURCES: Final[tuple[type[DataSource], ...]] = (RocketMQ, RocketMQStore)


def register(spark: SparkSession, *, ship_code: bool = False) -> SparkSession:
    """Register the formats "rocketmq" and "rocketmq-store" with a session, and return the session.

    From then on, a stream that fails with an error of these sources or of the sink raises an exception with a short text.
    `ship_code` sends this package along with the session's jobs, for clusters whose workers do not have it installed. The
    workers still need its dependencies: pyarrow, numpy, msgspec, lz4 and zstandard.
    """
    if ship_code:
        spark.addArtifacts(str(zip_package()), pyfile=True)
    for source in SOURCES:
        spark.dataSource.register(source)
    shorten_stream_errors(connect=type(spark).__module__.startswith("pyspark.sql.connect"))
    return spark


@cache
def zip_package() -> Path:
    """Write this package to a zip file that Spark's workers can import. Compiled twins are left out: Python replaces them."""
    folder = Path(tempfile.mkdtemp(prefix="skyrocket-code-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    package = Path(skyrocket.__file__).parent
    packed = folder / f"skyrocket-{skyrocket.__version__}.zip"
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for source in sorted(package.rglob("*.py")):
            archive.write(source, Path(package.name, source.relative_to(package)))
    return packed
