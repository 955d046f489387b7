"""docs/spark.md has a row for every option and column of the sink, with the default and meaning of the code."""

from __future__ import annotations

from pathlib import Path

import pytest

from skyrocket.spark.options.cluster_options import CLUSTER_OPTIONS
from skyrocket.spark.options.sink_options import SINK
from skyrocket.spark.options.table import Option
from skyrocket.spark.sink.columns import SINK_COLUMNS

DOCUMENT = (Path(__file__).resolve().parents[4] / "docs" / "spark.md").read_text()
SECTION = DOCUMENT[DOCUMENT.index("\n## Sink\n") :].split("\n## ")[1]
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in SECTION.splitlines() if line.startswith("| `")]
SHARED = {option.name for option in CLUSTER_OPTIONS} | {"checkpointLocation"}


def shown(option: Option) -> str:
    if option.default is None:
        return ""
    return f"{option.default // 1000}s" if option.parse.__name__ == "duration_ms" else str(option.default)


@pytest.mark.parametrize("option", [option for option in SINK if option.name not in SHARED], ids=lambda option: option.name)
def test_row_of_an_option_has_its_default_and_meaning(option: Option):
    (row,) = [row for row in ROWS if row[0] == f"`{option.name}`" and len(row) == 4 and row[1] not in _kinds()]
    assert row[1] == shown(option)
    assert row[2].replace("`", "").startswith(option.meaning.replace("`", ""))


@pytest.mark.parametrize("name", SINK_COLUMNS)
def test_row_of_a_column_has_its_types_and_meaning(name: str):
    (row,) = [row for row in ROWS if row[0].startswith(f"`{name}`") and row[1] in _kinds()]
    kinds = SINK_COLUMNS[name].kinds
    assert row[1] == (" or ".join(kinds) if len(kinds) < 3 else f"{', '.join(kinds[:-1])} or {kinds[-1]}")
    assert row[2].replace("`", "").startswith(SINK_COLUMNS[name].meaning.replace("`", ""))


def _kinds() -> set[str]:
    found = set()
    for column in SINK_COLUMNS.values():
        kinds = column.kinds
        found.add(" or ".join(kinds) if len(kinds) < 3 else f"{', '.join(kinds[:-1])} or {kinds[-1]}")
    return found
