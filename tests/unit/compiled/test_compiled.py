"""Which of two twins is used, and that both are tested wherever they can be built."""

from __future__ import annotations

import importlib
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from skyrocket import compiled
from tests.support.twins import KINDS, needs_twins, using


def said(*, pure: str) -> str:
    program = "import skyrocket.protocol.frame as frame, skyrocket.compiled as c; print(c.kind(), frame.split is frame._split)"
    environment = os.environ | {"SKYROCKET_PURE": pure}
    return subprocess.run(
        [sys.executable, "-c", program], env=environment, check=True, capture_output=True, text=True
    ).stdout.strip()


@needs_twins
def test_an_environment_variable_disables_the_twins():
    assert said(pure="") == "compiled False"
    assert said(pure="0") == "compiled False"
    assert said(pure="1") == "pure Python True"


def a_function_without_a_twin() -> None: ...


def test_a_twin_that_is_not_built_falls_back_to_its_reference():
    assert compiled.twin("not_there", a_function_without_a_twin) is a_function_without_a_twin


@needs_twins
def test_a_twin_whose_sources_have_changed_is_reported_and_not_used(monkeypatch: pytest.MonkeyPatch):
    assert not compiled.is_stale("frame", frame_module().SOURCE_DIGEST)
    monkeypatch.setattr(frame_module(), "SOURCE_DIGEST", "of other sources")

    def split() -> None: ...

    with pytest.warns(RuntimeWarning, match="was built from other sources and is not used: .* Run make setup"):
        assert compiled.twin("frame", split) is split


def frame_module() -> ModuleType:
    return importlib.import_module("skyrocket.compiled.frame")


def test_a_digest_changes_with_every_file_that_a_twin_may_include(tmp_path: Path):
    digests = importlib.import_module("skyrocket.compiled.source_digest")
    found = set()
    for name, text in [
        ("twin.pyx", "a"),
        ("twin.pyx", "b"),
        ("shared.pxi", "a"),
        ("shared.pxi", "b"),
        ("shared.h", "a"),
        ("other.pyx", ""),
    ]:
        (tmp_path / name).write_text(text)
        digests._read_shared_sources.cache_clear()
        found.add(digests.source_digest(tmp_path / "twin.pyx"))
    assert len(found) == 5, "another module's own source does not count"
    assert digests.source_digest(tmp_path / "no_such_twin.pyx") is None, "a wheel without sources has nothing to compare"


def test_a_test_can_choose_twin_or_reference():
    from skyrocket.protocol import frame

    for kind in KINDS:
        with using(kind):
            assert (frame.split is frame._split) == (kind == "reference")


@pytest.mark.skipif(compiled.PURE, reason="SKYROCKET_PURE says that they are left aside")
@pytest.mark.skipif(not shutil.which("cc") or not importlib.util.find_spec("Cython"), reason="they cannot be built here")
def test_the_twins_are_built_if_a_compiler_is_there():
    assert compiled.TWINS, "run make setup: the other tests of the twins are left out"
