"""Documents name modules and tests that exist, and their Python examples are whole programs."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "skyrocket"
DOCUMENTS = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
# Pages about one package, whose modules they name without the package.
PACKAGES = {"protocol.md": "protocol", "store-format.md": "store"}

QUOTED = re.compile(r"`([^`\n]+)`")
MODULE = re.compile(r"[\w*/.-]+\.(?:py|pyx|pxi)")
TEST_PATH = re.compile(r"tests/[\w*/.-]*")
TEST_NAME = re.compile(r"test_\w+")
BLOCK = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
FIRST_CELL_THAT_LEANS = re.compile(r"^\| ((?:The same|As above|It|They|This)\b[^|]*)", re.MULTILINE)
ONE_PAGE_LINES = 90
EXAMPLE = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


def quoted(document: Path) -> list[str]:
    """Return the words in backticks, those of code blocks left out."""
    return QUOTED.findall(BLOCK.sub("", document.read_text()))


def is_named_well(document: Path, path: str) -> bool:
    """Whether the path is a file of the repository or of the package, or the end of one path only, within the page's package."""
    if any(ROOT.glob(path)) or any(SOURCE.glob(path)):
        return True
    folders = [SOURCE / PACKAGES[document.name]] if document.name in PACKAGES else [SOURCE, ROOT / "tests"]
    found = [match for folder in folders for match in folder.rglob(path)]
    return len(found) == 1 or (bool(found) and "*" in path)


@cache
def names_of_tests() -> frozenset[str]:
    texts = (path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    return frozenset(name for text in texts for name in re.findall(r"def (test_\w+)\(", text))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_documents_name_files_that_exist(document: Path):
    words = [word.partition("::")[0] for word in quoted(document)]
    paths = [word.rstrip("/") for word in words if MODULE.fullmatch(word) or TEST_PATH.fullmatch(word)]
    assert [path for path in paths if not is_named_well(document, path)] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_documents_name_tests_that_exist(document: Path):
    names = [word.rpartition("::")[2] for word in quoted(document)]
    assert [name for name in names if TEST_NAME.fullmatch(name) and name not in names_of_tests()] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_python_examples_can_be_pasted_into_a_file(document: Path):
    for example in EXAMPLE.findall(document.read_text()):
        compile(example, f"an example of {document.name}", "exec", dont_inherit=True)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_a_row_stands_on_its_own(document: Path):
    leaning = FIRST_CELL_THAT_LEANS.findall(BLOCK.sub("", document.read_text()))
    assert not leaning, f"these rows need another row to be understood: {leaning}"


def test_the_architecture_fits_on_one_page():
    assert (ROOT / "docs" / "architecture.md").read_text().count("\n") <= ONE_PAGE_LINES
