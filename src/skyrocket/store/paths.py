"""The paths in a store directory. The names are Apache's, except `checksums`, `damaged`, `diverged`,
`sync_failed` and `consumequeue.deleted`, which Apache does not have."""

from __future__ import annotations

import os
from pathlib import Path


class StorePaths:
    def __init__(self, root: Path | str, commit_log: Path | str | None = None) -> None:
        """`commit_log` is the directory of the log if it is not in `root`, such as on a disk of its own (storePathCommitLog)."""
        self.root = os.fspath(root)
        self.commit_log = os.fspath(commit_log) if commit_log else f"{self.root}/commitlog"
        self.consume_queues = f"{self.root}/consumequeue"
        self.deleted_topics = f"{self.consume_queues}.deleted"  # beside the queues: they are moved there
        self.index = f"{self.root}/index"
        self.config = f"{self.root}/config"
        self.checkpoint = f"{self.root}/checkpoint"
        self.abort = f"{self.root}/abort"  # exists while a broker runs; a broker that finds it at start recovers from a crash
        self.lock = f"{self.root}/lock"
        self.sync_failed = f"{self.root}/sync_failed"  # exists after a failed sync, until the log was read back from the disk
        self.checksums = f"{self.root}/checksums"
        self.damaged = f"{self.root}/damaged"
        self.diverged = f"{self.root}/diverged"  # what a slave had and its master had not
        self.timer_wheel = f"{self.root}/timerwheel"
        self.timer_log = f"{self.root}/timerlog"
        self.timer_checkpoint = f"{self.config}/timercheck"
