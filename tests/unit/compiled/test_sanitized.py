"""The twins that read store files, built with AddressSanitizer and UBSan, on a sample of hostile store files.

`make sanitize` runs all twins on all samples.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
READ_STORE_FILES = {"queue_run", "dispatch_entries", "readdress", "columnar"}
FAULTY = """# cython: language_level=3, boundscheck=False
from libc.stdlib cimport malloc

def overflow(long long number):
    return number + number

def outside(Py_ssize_t size):
    cdef unsigned char *made = <unsigned char *>malloc(size)
    return made[size]
"""
SAMPLE = "5000"  # frames: two seeds of each test


def find_runtime() -> str | None:
    """Return the sanitizer's library, which must be loaded before everything else; None where the compiler has none."""
    compiler = shutil.which("gcc")
    if compiler is None:
        return None
    done = subprocess.run([compiler, "-print-file-name=libasan.so"], capture_output=True, text=True, check=True)
    return done.stdout.strip() if Path(done.stdout.strip()).is_absolute() else None  # the bare name: there is none


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources, with these twins built beside them."""
    pytest.importorskip("Cython")
    copied = tmp_path_factory.mktemp("sanitized")
    shutil.copy(ROOT / "hatch_build.py", copied)
    shutil.copytree(ROOT / "src", copied / "src", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    for path in (copied / "src" / "skyrocket" / "compiled").glob("*.pyx"):
        if path.stem not in READ_STORE_FILES:
            path.unlink()
    (copied / "src" / "skyrocket" / "compiled" / "faulty.pyx").write_text(FAULTY)
    environment = {name: value for name, value in os.environ.items() if name != "SKYROCKET_PURE"} | {"CC": "gcc"}
    command = [sys.executable, "hatch_build.py", "--sanitize"]
    done = subprocess.run(command, cwd=copied, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return copied


def run_python(built: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python with the built twins, under the sanitizers."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "SKYROCKET_"))}
    environment |= {"LD_PRELOAD": find_runtime() or "", "ASAN_OPTIONS": "detect_leaks=0", "UBSAN_OPTIONS": "print_stacktrace=1"}
    environment |= {"PYTHONMALLOC": "malloc", "PYTHONPATH": str(built / "src"), "SKYROCKET_FUZZ_FRAMES": SAMPLE}
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.skipif(find_runtime() is None, reason="there is no gcc with AddressSanitizer")
def test_hostile_store_files_lead_no_twin_outside_its_buffers(built: Path):
    done = run_python(built, "-m", "pytest", "-q", "--capture=sys", "-p", "no:cacheprovider", "tests/fuzz/test_hostile_stores.py")
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]
    assert "passed" in done.stdout
    assert "skipped" not in done.stdout, done.stdout


@pytest.mark.skipif(find_runtime() is None, reason="there is no gcc with AddressSanitizer")
@pytest.mark.parametrize(
    ("fault", "report"), [("overflow(2**62)", "signed integer overflow"), ("outside(100)", "heap-buffer-overflow")]
)
def test_the_sanitizers_watch_what_is_built(built: Path, fault: str, report: str):
    """Each of the two ends the process: the test above can fail."""
    done = run_python(built, "-c", f"from skyrocket.compiled.faulty import *; {fault}")
    assert done.returncode != 0
    assert report in done.stderr, done.stderr[-3000:]
