"""The bounds of a report, in one place. What exceeds one is cut, and the page says how much is missing."""

from __future__ import annotations

from typing import Final

TABLE_ROWS_MAX: Final = 1_000
"""Rows of one table. A browser lays out this many at once; programs read the rest from `--json`."""

CELL_CHARACTERS_MAX: Final = 2_000
"""Characters of one text: a cell, a label, a sample of a body."""

LABEL_CHARACTERS_MAX: Final = 28
"""Characters of a label inside a chart. The whole text is in the tooltip."""

SERIES_MAX: Final = 8
"""Lines in one chart: as many as there are colours that can be told apart."""

POINTS_MAX: Final = 640
"""Points of one line after thinning: about one for each unit of the chart's width."""

BARS_MAX: Final = 40
"""Bars of one chart, the longest ones."""

BINS_MAX: Final = 80
"""Bins of one histogram."""

HEAT_ROWS_MAX: Final = 60
HEAT_COLUMNS_MAX: Final = 96
"""Rows and columns of one heat map."""

SECTIONS_MAX: Final = 200
"""Tables, charts and notes of one page."""
