"""The commands of mqadmin that our documents name are those of Apache's mqadmin 5.5.0, which lists them itself."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.apache.admin import Admin
from tests.support.twin_commands import read_twins, unmatched

pytestmark = pytest.mark.interop

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "mqadmin.md"
NAME = re.compile(r"[a-z]+[A-Za-z]*[A-Z][A-Za-z]*|producer|allocateMQ")


@pytest.fixture(scope="module")
def apaches(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    admin = Admin(tmp_path_factory.mktemp("mqadmin"))
    try:
        return set(re.findall(r"^ {2,}(\w+) {2,}", admin.admin(), re.MULTILINE))
    finally:
        admin.kill()


def test_twins_are_of_commands_that_mqadmin_has(apaches: set[str]):
    assert len(apaches) > 60
    assert {name for names, _ in read_twins() for name in names} | unmatched() <= apaches


def test_the_page_of_mqadmin_names_all_of_its_commands_and_no_other(apaches: set[str]):
    cells = re.findall(r"^\| ([^|]+) \|", DOCUMENT.read_text(), re.MULTILINE)
    named = {word for cell in cells for word in NAME.findall(re.sub(r"\(.*?\)|from our broker", "", cell))}
    assert named == apaches
