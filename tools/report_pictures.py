"""`python -m tools.report_pictures`: take the pictures of reports in docs/pictures, with a real Chromium.

    python -m tools.report_pictures signup-demo=signup.html      take those of a report that a job has written

Three pages, in light and in dark: an empty one, one of a cluster with a backlog, and one that exceeds every bound. And in light
the beginning of normal reports of some jobs (`tools.job_pages`). Look at the pictures after a change of `skyrocket/report`.
"""

from __future__ import annotations

import math
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from skyrocket.report import (
    Advice,
    BarChart,
    HeatMap,
    HistogramChart,
    LineChart,
    LineSeries,
    Note,
    ReportPage,
    ReportTable,
    Severity,
    SummaryRow,
    render_page,
)
from tools.job_pages import JOB_PAGES

FOLDER: Final = Path(__file__).resolve().parents[1] / "docs" / "pictures"
WIDTH: Final = 1000
HEIGHTS: Final = {
    "empty": 620,
    "normal": 1960,
    "large": 2300,
    "signup-demo": 2200,
    "table": 2100,
    "audit-normal": 1000,
    "deadletters-normal": 1000,
    "drain-normal": 900,
    "verify-normal": 560,
}
SCHEMES: Final = {"dark": 0, "light": 1}  # Chromium's numbers
START_MS: Final = 1_800_000_000_000.0
CHROMIUM_S_MAX: Final = 180


def empty_page() -> ReportPage:
    """A report of a cluster without any group."""
    return ReportPage(
        "Backlog at 127.0.0.1:9876",
        [SummaryRow("waiting messages", "0"), SummaryRow("groups", "0", "0 members"), SummaryRow("produced", "–")],
        [
            Note("Advice", [Advice(Severity.GOOD, "No rule found anything that needs attention.")]),
            BarChart("Lag by group and topic", []),
            HeatMap("Lag by queue", [], [], []),
            ReportTable("Topics", ["group", "topic"], [], empty="No group has an offset."),
        ],
        "Looked at 2027-01-15 08:00:00 UTC.",
    )


def normal_page() -> ReportPage:
    """A report of a cluster with a backlog."""
    names = ["coupons · orders", "sms · orders", "push · sign-ups"]
    lines = [
        LineSeries(name, [(START_MS + 5_000.0 * step, _lag(number, step)) for step in range(240)])
        for number, name in enumerate(names)
    ]
    lags = [[_lag(row, 200) * (1 + math.sin(row + column)) / 8 for column in range(8)] for row in range(3)]
    lags[0][3] *= 14
    return ReportPage(
        "Backlog at 10.0.0.1:9876;10.0.0.2:9876",
        [
            SummaryRow("waiting messages", "58,120"),
            SummaryRow("groups", "3", "11 members"),
            SummaryRow("produced", "410/s", "counted for each group"),
            SummaryRow("consumed", "150/s"),
            SummaryRow("time to drain", "–", "at these rates"),
            SummaryRow("oldest unread", "2 min 21 s"),
        ],
        [
            Note("Advice", _advice()),
            LineChart("Lag over time", lines, "messages"),
            BarChart("Lag by group and topic", [(name, _lag(number, 239)) for number, name in enumerate(names)], "messages"),
            HeatMap("Lag by queue", [str(number) for number in range(8)], names, lags, "messages"),
            HistogramChart(
                "Latency, end to end: coupons",
                ["0 ms", "1 ms", "2 ms", "5 ms", "10 ms", "20 ms", "50 ms", "100 ms", "200 ms", "500 ms", "1 s", "2 s"],
                [2, 18, 120, 310, 260, 140, 60, 33, 12, 5, 2, 1],
                "messages",
            ),
            ReportTable(
                "Topics",
                ["group", "topic", "queues", "lag", "in/s", "out/s", "drain", "oldest"],
                [
                    ["coupons", "orders", 8, 54_210, 410, 150, "never", "2 min 21 s"],
                    ["sms", "orders", 8, 3_900, 410, 620, "18.6 s", "9 s"],
                    ["push", "sign-ups", 4, 10, 12, 12.5, "20 s", "200 ms"],
                ],
            ),
        ],
        "Looked at 2027-01-15 08:20:00 UTC.",
    )


def large_page() -> ReportPage:
    """A report that exceeds the bounds of rows, lines, bars, cells and texts."""
    lines = [
        LineSeries(
            f"group-{number} · topic-with-a-rather-long-name-{number}",
            [(START_MS + 60_000.0 * x, _lag(number, x)) for x in range(5_000)],
        )
        for number in range(20)
    ]
    return ReportPage(
        "Backlog at a cluster with a very long name " + "10.0.0.1:9876;" * 12,
        [SummaryRow(f"figure {number}", f"{10**number:,}", "a note") for number in range(1, 13)],
        [
            LineChart("Lag over time", lines, "messages"),
            BarChart("Lag by topic", [(f"topic-with-a-rather-long-name-{n}", float(n * n)) for n in range(60)], "messages"),
            HeatMap(
                "Lag by queue",
                [str(n) for n in range(200)],
                [f"group-{n}" for n in range(100)],
                [[float(r * c % 97) for c in range(200)] for r in range(100)],
            ),
            ReportTable(
                "Queues",
                ["group", "queue", "lag", "text"],
                [[f"group-{n}", n, n * 17, "<b>& text</b> " * 9] for n in range(3_000)],
            ),
            Note("Advice", [*_advice(), Advice(Severity.WARNING, "x" * 3_000, "evidence")]),
        ],
        "Looked at 2027-01-15 08:20:00 UTC.",
    )


PAGES: Final = {"empty": empty_page, "normal": normal_page, "large": large_page}


def _lag(number: int, step: int) -> float:
    wave = 1 + 0.2 * math.sin(step / (7 + number))
    return max(0.0, (54_000 * step / 240 if number == 0 else 4_000 - 15 * step * number) * wave)


def _advice() -> list[Advice]:
    return [
        Advice(
            Severity.PROBLEM,
            "Member 10.0.0.7@4711 of group 'coupons' is stuck: messages wait in its queues, and it finished none between the "
            "looks. Look at its handler: a call that does not return, or one message that fails again and again.",
            "1 queue with 42,871 waiting messages; it has pulled 1,024 messages that it has not finished; 10 s between the "
            "looks.",
        ),
        Advice(
            Severity.WARNING,
            "Group 'coupons' falls behind in topic 'orders': more is produced than consumed. Add members: there are 3 for 8 "
            "queues.",
            "410/s produced, 150/s consumed, 54,210 messages wait.",
        ),
        Advice(
            Severity.INFORMATION,
            "Group 'sms' catches up in topic 'orders': in 18.6 s nothing waits, if both rates stay.",
            "410/s produced, 620/s consumed, 3,900 messages wait.",
        ),
    ]


def find_chromium() -> str | None:
    """Return the command of a Chromium on this machine."""
    return next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None)


def take_picture(chromium: str, html: str, picture: Path, *, scheme: str, height: int) -> None:
    """Open a page in a headless Chromium, and write what it shows as a PNG file."""
    with tempfile.TemporaryDirectory(prefix="skyrocket-chromium-") as home:
        page = Path(home) / "report.html"
        page.write_text(html, encoding="utf-8")
        subprocess.run(  # noqa: S603 — the browser that find_chromium found
            [
                *(chromium, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-dev-shm-usage"),
                *(f"--user-data-dir={home}/profile", f"--blink-settings=preferredColorScheme={SCHEMES[scheme]}"),
                *(f"--window-size={WIDTH},{height}", f"--screenshot={picture}", page.as_uri()),
            ],
            check=True,
            capture_output=True,
            timeout=CHROMIUM_S_MAX,
        )


def main(given: list[str]) -> None:
    """Take all pictures, or those of the reports that are given as NAME=FILE."""
    chromium = find_chromium()
    if chromium is None:
        raise SystemExit("There is no Chromium here. On Debian, install it with: apt-get install chromium")
    FOLDER.mkdir(parents=True, exist_ok=True)
    written = {name: Path(file).read_text("utf-8") for name, _, file in (one.partition("=") for one in given)}
    made = {**PAGES, **JOB_PAGES}
    pages = written or {f"report-{name}": render_page(made[name]()) for name in HEIGHTS if name in made}
    for name, html in pages.items():
        height = HEIGHTS[name.removeprefix("report-")]
        for scheme in SCHEMES if name.removeprefix("report-") not in JOB_PAGES else ("light",):
            take_picture(chromium, html, FOLDER / f"{name}-{scheme}.png", scheme=scheme, height=height)


if __name__ == "__main__":
    main(sys.argv[1:])
