"""docs/benchmarks.md: the text between a pair of markers is made from the record, everything else is written by hand.

<!-- measured: bars -->
| load | figure | …
<!-- end -->
"""

from __future__ import annotations

import re
from pathlib import Path

from bench.suite.charts import charts
from bench.suite.generator import ROOT
from bench.suite.record import RunRecord
from bench.suite.tables import sections

DOCUMENT = ROOT / "docs" / "benchmarks.md"
RECORD = ROOT / "docs" / "benchmarks.json"
CHARTS = ROOT / "docs" / "charts"
_SECTION = re.compile(r"(<!-- measured: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def render(record: RunRecord, text: str) -> str:
    """Return the document with each measured part replaced. Every part has its place, and every place its part."""
    parts = sections(record)
    places = {found[2] for found in _SECTION.finditer(text)}
    assert places == set(parts), f"docs/benchmarks.md has places for {sorted(places)}, and the record has {sorted(parts)}"
    return _SECTION.sub(lambda found: f"{found[1]}{parts[found[2]]}{found[3]}", text)


def write_document(record: RunRecord, document: Path = DOCUMENT, folder: Path = CHARTS) -> None:
    document.write_text(render(record, document.read_text()))
    folder.mkdir(exist_ok=True)
    for name, drawing in charts(record).items():
        (folder / name).write_text(drawing)
