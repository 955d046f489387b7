"""The examples of docs/testing.md run: those marked as tests in pytest, the others directly."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.unit.testing.test_pytest_plugin import run

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "testing.md"
TEXT = DOCUMENT.read_text()
TESTS = re.findall(r"```python test\n(.*?)```", TEXT, re.DOTALL)
EXAMPLES = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


def test_the_tests_pass(tmp_path: Path):
    assert len(TESTS) == 3
    for number, text in enumerate(TESTS):
        (tmp_path / f"test_{number}.py").write_text(text)
    done = run(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout


@pytest.mark.parametrize("example", EXAMPLES, ids=["time", "retries"])
async def test_an_example_runs(example: str):
    code = compile(example, str(DOCUMENT), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    await eval(code, {})
