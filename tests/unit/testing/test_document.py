"""The examples of docs/testing.md run: those marked as tests in pytest, the others directly."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.guide_examples import DOCUMENTS, read_examples, run_example
from tests.unit.testing.test_pytest_plugin import run

DOCUMENT = DOCUMENTS / "testing.md"
TESTS = re.findall(r"```python test\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
EXAMPLES = read_examples(DOCUMENT)


def test_the_tests_pass(tmp_path: Path):
    assert len(TESTS) == 3
    for number, text in enumerate(TESTS):
        (tmp_path / f"test_{number}.py").write_text(text)
    done = run(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout


@pytest.mark.parametrize("example", EXAMPLES, ids=["time", "retries"])
def test_an_example_runs(example: str):
    run_example(example)
