"""`python -m tests.soak --seconds 1200`: run a soak, print its report, and end with 1 if it found a problem."""

from __future__ import annotations

import argparse
import asyncio
import logging
import random
import sys
import tempfile
from pathlib import Path

from tests.soak.soak import soak


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description="Run every workload and every fault at once.")
    parser.add_argument("--seconds", type=float, default=1200)
    parser.add_argument("--seed", type=int, default=None, help="repeat the choices of an earlier run")
    parser.add_argument("--report", type=Path, default=Path(".cache/soak"), help="the folder for soak.txt and soak.json")
    parser.add_argument("--home", type=Path, default=None, help="keep the servers' files and logs in this folder")
    given = parser.parse_args()
    logging.basicConfig(level=logging.ERROR)  # clients warn about every server that is away
    seed = random.randrange(1_000_000) if given.seed is None else given.seed
    with tempfile.TemporaryDirectory(prefix="soak-") as temporary:
        report = asyncio.run(soak(given.home or Path(temporary), given.seconds, seed))
    report.save(given.report)
    print(report.text())  # noqa: T201
    return 1 if report.problems else 0


if __name__ == "__main__":
    sys.exit(main())
