"""The order in which tests go to several workers: `pytest -n 5 --dist loadfile`.

pytest-xdist gives a worker one whole file after another, the file with the most tests first. This scheduler counts time instead:

    parts   A file is one part, because its tests share servers. A few long files are cut into several parts (`CUTS`), along the
            parameter for which they start their servers anew anyway, or test by test.
    order   The longest part comes first, so that all workers end at about the same time. `tests/durations.txt` has the measured
            time of each part; `make durations` writes it. A file that is not in it counts as a short one.
    Java    While the first worker that needs Apache's jars or an archive of classes makes them, the others would wait for it. So
            two of the workers begin with a part that needs neither.
    shared  Files of tests/spark share one Spark session in each worker, which costs about ten seconds of CPU time to start.
            Files of tests/client share Apache's servers, until the worker runs a file of another folder. Each of these folders
            has workers of its own (`SHARING`), as long as other tests are left for the rest.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from xdist.scheduler.loadscope import LoadScopeScheduling

from tests.support.bytecode import write_bytecode

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController

DURATIONS = Path(__file__).resolve().parents[1] / "durations.txt"
WRITE_DURATIONS = "SKYROCKET_WRITE_DURATIONS"  # an environment variable: 1 makes a run write DURATIONS
LISTED_S_MIN = 2.0
UNLISTED_TEST_S = 0.02
UNLISTED_CUT_S = 60.0  # a file is cut because it is long
SPARK, CLIENT = "tests/spark/", "tests/client/"
SHARING = {"gw0": SPARK, "gw1": SPARK, "gw2": CLIENT}
JAVA = (SPARK, CLIENT, "tests/interop/", "tests/examples/", "tests/failover/")
LATE_JAVA_WORKERS = {"gw1", "gw3"}

EACH_CLIENT = re.compile(r"\[(?:.*?-)??(apache-old|apache|json|binary|old)\]$")
EACH_TEST = re.compile(r"::(.*)$")
CUTS = {
    "tests/interop/test_java_client.py": EACH_CLIENT,
    "tests/interop/test_queries_and_replies.py": EACH_CLIENT,
    "tests/interop/test_take_over.py": EACH_TEST,
    "tests/interop/test_timers.py": EACH_TEST,
    "tests/interop/test_transactions.py": EACH_CLIENT,
    "tests/sim/test_simulation.py": EACH_TEST,
    "tests/spark/test_sink_crash.py": EACH_TEST,
    "tests/spark/test_source_crash.py": EACH_TEST,
}


def part_of(nodeid: str) -> str:
    """The part that a test belongs to: its file, or its file and what the pattern in CUTS finds in its name."""
    file = nodeid.partition("::")[0]
    found = CUTS[file].search(nodeid) if file in CUTS else None
    return file if found is None else f"{file}[{found[1]}]"


def read_durations() -> dict[str, float]:
    """The measured seconds of each part."""
    lines = (line.split(maxsplit=1) for line in DURATIONS.read_text().splitlines())
    return {part: float(seconds) for seconds, part in lines}


class LongestFirst(LoadScopeScheduling):
    """xdist's scheduler of whole files, with the parts and their order from this module."""

    def __init__(self, config: pytest.Config, log: Any) -> None:
        super().__init__(config, log)
        self._durations = read_durations()
        self._begun: set[str] = set()

    def _split_scope(self, nodeid: str) -> str:
        return part_of(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        worker = node.gateway.id
        is_without_java = worker in LATE_JAVA_WORKERS and worker not in self._begun
        self._begun.add(worker)

        def rank(part: str) -> tuple[bool, float]:
            unlisted_s = UNLISTED_CUT_S if part.endswith("]") else UNLISTED_TEST_S * len(self.workqueue[part])
            shares = next((folder for folder in SHARING.values() if part.startswith(folder)), None)
            is_preferred = shares == SHARING.get(worker)
            if is_without_java:
                is_preferred = not part.startswith(JAVA)
            return is_preferred, self._durations.get(part, unlisted_s)

        self.workqueue.move_to_end(max(self.workqueue, key=rank), last=False)
        super()._assign_work_unit(node)


class DurationsWriter:
    """Adds up the time of each part, and writes DURATIONS at the end of the run."""

    def __init__(self) -> None:
        self._seconds: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[part_of(report.nodeid)] += report.duration

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        if exitstatus not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            return  # an interrupted run has measured some parts only
        listed = [(part, seconds) for part, seconds in self._seconds.most_common() if seconds >= LISTED_S_MIN]
        DURATIONS.write_text("".join(f"{seconds:.0f} {part}\n" for part, seconds in listed))


def pytest_configure(config: pytest.Config) -> None:
    """Prepare a whole run: in the process that gives tests to workers and gets their reports, not in the workers."""
    is_whole_run = config.getoption("dist", "no") == "loadfile"  # not `make check`, which runs the tests of one folder
    if not is_whole_run or "PYTEST_XDIST_WORKER" in os.environ:
        return
    if not config.getoption("file_or_dir"):
        write_bytecode()
    if os.environ.get(WRITE_DURATIONS) == "1":
        config.pluginmanager.register(DurationsWriter())


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LongestFirst | None:
    """Replace xdist's scheduler of `--dist loadfile`; every other `--dist` stays xdist's."""
    return LongestFirst(config, log) if config.getvalue("dist") == "loadfile" else None
