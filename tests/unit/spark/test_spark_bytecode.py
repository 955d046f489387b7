"""A zip file of modules gets bytecode, from which Python imports; the modules stay where they were in the file."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from tools.spark_bytecode import add_bytecode

MODULE = "def where():\n    return where.__code__.co_filename\n"


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    with zipfile.ZipFile(tmp_path / "modules.zip", "w", zipfile.ZIP_DEFLATED) as made:
        for name in ("rockets/__init__.py", "rockets/engine.py", "pyspark/pandas/left_out.py"):
            made.writestr(name, MODULE)
    return tmp_path / "modules.zip"


def run(archive: Path, program: str) -> str:
    environ = {"PYTHONPATH": str(archive)}
    return subprocess.run([sys.executable, "-c", program], env=environ, capture_output=True, text=True, check=True).stdout.strip()


def test_modules_are_imported_from_bytecode(archive: Path):
    program = "import rockets.engine as engine; print(engine.__file__, engine.where())"
    assert run(archive, program) == f"{archive}/rockets/engine.py {archive}/rockets/engine.py"
    add_bytecode(archive)
    assert run(archive, program) == f"{archive}/rockets/engine.pyc {archive}/rockets/engine.py"


def test_process_that_has_read_the_table_of_contents_goes_on(archive: Path):
    program = """
import sys
import rockets
from pathlib import Path
from tools.spark_bytecode import add_bytecode
add_bytecode(Path(sys.path[1]))
import rockets.engine
print(rockets.engine.__file__)
"""
    environ = {"PYTHONPATH": f"{archive}:{Path(__file__).resolve().parents[3]}"}
    done = subprocess.run([sys.executable, "-c", program], env=environ, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"{archive}/rockets/engine.py"


def test_second_run_changes_nothing(archive: Path):
    add_bytecode(archive)
    once = archive.read_bytes()
    add_bytecode(archive)
    assert archive.read_bytes() == once
    with zipfile.ZipFile(archive) as made:
        names = made.namelist()
    assert sorted(names) == [
        "pyspark/pandas/left_out.py",
        "rockets/__init__.py",
        "rockets/__init__.pyc",
        "rockets/engine.py",
        "rockets/engine.pyc",
    ]
    assert [path.name for path in archive.parent.iterdir()] == ["modules.zip"]
