"""`python -m tools.spark_bytecode`: add bytecode to the zip files from which Spark's Python processes import pyspark.

Spark puts python/lib/pyspark.zip before everything else on the path of each Python process that it starts. The zip holds only
sources, and Python keeps no bytecode for a zip. So each process compiles a hundred modules anew, which is more than half of its
start. `make test` starts hundreds of such processes.
"""

from __future__ import annotations

import compileall
import py_compile
import shutil
import tempfile
import zipfile
from pathlib import Path

# What no process of Spark's imports unless a program uses it.
LEFT_OUT = tuple(f"pyspark/{folder}/" for folder in ("ml", "mllib", "pandas", "testing", "tests", "sql/tests", "streaming/tests"))


def add_bytecode(archive: Path) -> None:
    """Add the bytecode of this Python's version beside each module in `archive`; nothing changes if there is some already.

    Bytes that are there stay where they are, for processes that have read the table of contents already.
    """
    with zipfile.ZipFile(archive) as old, tempfile.TemporaryDirectory() as folder:
        names = [name for name in old.namelist() if name.endswith(".py") and not name.startswith(LEFT_OUT)]
        if any(name.endswith(".pyc") for name in old.namelist()):
            return
        old.extractall(folder, names)
        compileall.compile_dir(
            folder,
            quiet=2,
            legacy=True,  # module.pyc beside module.py, where zipimport looks
            stripdir=folder,
            prependdir=str(archive),  # for tracebacks
            invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
        )
        draft = archive.with_name(f"{archive.name}.draft")
        shutil.copyfile(archive, draft)
        with zipfile.ZipFile(draft, "a") as new:
            for compiled in sorted(Path(folder).rglob("*.pyc")):
                new.write(compiled, compiled.relative_to(folder))
    draft.replace(archive)


def main() -> None:
    import pyspark  # noqa: PLC0415 where the zip files are

    for archive in Path(pyspark.__file__).parent.glob("python/lib/*.zip"):
        add_bytecode(archive)


if __name__ == "__main__":
    main()
