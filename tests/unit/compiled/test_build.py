"""A wheel can be built anywhere: without a C compiler, or when told so, it is pure Python, and one line says why."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """The sources, as a packager has them."""
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE", ".gitignore"):
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    return tmp_path


@pytest.mark.parametrize(
    ("surroundings", "reason"),
    [
        ({"SKYROCKET_PURE": "1"}, "SKYROCKET_PURE is set."),
        ({"CC": "no-such-compiler"}, "The compiled twins could not be built: "),
    ],
)
def test_a_wheel_without_the_twins_says_why(copied: Path, surroundings: dict[str, str], reason: str):
    if "CC" in surroundings:
        pytest.importorskip("Cython")
        for path in (copied / "src" / "skyrocket" / "compiled").glob("*.p[yx][xi]"):
            path.unlink()
        (copied / "src" / "skyrocket" / "compiled" / "small.pyx").write_text("def one():\n    return 1\n")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel"]
    environment = {name: value for name, value in os.environ.items() if name != "SKYROCKET_PURE"} | surroundings
    done = subprocess.run(command, cwd=copied, env=environment, check=True, capture_output=True, text=True)
    told = [line for line in (done.stdout + done.stderr).splitlines() if line.startswith(reason)]
    assert len(told) == 1, done.stdout + done.stderr
    assert told[0].endswith("skyrocket is built in pure Python: it works the same, and slower.")
    [wheel] = (copied / "dist").iterdir()
    assert wheel.name.endswith("-py3-none-any.whl")
    assert not [name for name in ZipFile(wheel).namelist() if name.endswith(".so")]


def test_a_wheel_with_the_twins_is_for_one_python_and_one_kind_of_machine(copied: Path):
    pytest.importorskip("Cython")
    if not shutil.which("cc"):
        pytest.skip("there is no C compiler")
    twins = copied / "src" / "skyrocket" / "compiled"
    for path in twins.glob("*.pyx"):
        if path.stem != "frame":  # one will do
            path.unlink()
    environment = {name: value for name, value in os.environ.items() if name != "SKYROCKET_PURE"}
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel"]
    subprocess.run(command, cwd=copied, env=environment, check=True, capture_output=True)
    [wheel] = (copied / "dist").iterdir()
    interpreter = f"cp{sys.version_info.major}{sys.version_info.minor}"
    assert f"-{interpreter}-{interpreter}-" in wheel.name
    [module] = [name for name in ZipFile(wheel).namelist() if name.endswith(".so")]
    assert module.startswith("skyrocket/compiled/frame.")
