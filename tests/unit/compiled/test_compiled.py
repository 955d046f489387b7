"""Which of two twins is used, and that both are tested wherever they can be built."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys

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
def test_a_variable_leaves_the_twins_aside():
    assert said(pure="") == "compiled False"
    assert said(pure="0") == "compiled False"
    assert said(pure="1") == "pure Python True"


def a_function_without_a_twin() -> None: ...


def test_what_was_not_built_is_its_reference():
    assert compiled.twin("not_there", a_function_without_a_twin) is a_function_without_a_twin


@needs_twins
def test_a_module_that_is_older_than_its_source_says_so():
    with pytest.raises(ImportError, match="has no a_function_without_a_twin: it is older than its source"):
        compiled.twin("frames", a_function_without_a_twin)


def test_a_test_can_choose_between_the_two():
    from skyrocket.protocol import frame

    for kind in KINDS:
        with using(kind):
            assert (frame.split is frame._split) == (kind == "reference")


@pytest.mark.skipif(not shutil.which("cc") or not importlib.util.find_spec("Cython"), reason="they cannot be built here")
def test_where_they_can_be_built_they_are():
    assert compiled.TWINS, "run make setup: the other tests of the twins are left out"
