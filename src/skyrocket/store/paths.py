"""The paths in a store directory. The names are Apache's, except `checksums`, `damaged`, `diverged`,
`sync_failed` and `consumequeue.deleted`, which Apache does not have.

A node of a DLedger group has its log in a directory of its own, and no `commitlog`:

    dledger-n0/data         the log: entries with a record each
    dledger-n0/index        where each entry lies
    dledger-n0/currterm     the node's term and vote
    dledger-n0/checkpoint   the last entry, and the last one that the group has confirmed
"""

from __future__ import annotations

import os
from pathlib import Path

LEDGER_PREFIX = "dledger-"


class StorePaths:
    def __init__(self, root: Path | str, commit_log: Path | str | None = None, *, ledger_id: str | None = None) -> None:
        """`commit_log` is the directory of the log if it is not in `root`, such as on a disk of its own (storePathCommitLog).

        `ledger_id` is the id of a node of a DLedger group, such as `n0`.
        """
        self.root = os.fspath(root)
        self.ledger_id = ledger_id
        self.ledger = f"{self.root}/{LEDGER_PREFIX}{ledger_id}"
        default = f"{self.ledger}/data" if ledger_id else f"{self.root}/commitlog"
        self.commit_log = os.fspath(commit_log) if commit_log else default
        self.ledger_index = f"{self.ledger}/index"
        self.term_file = f"{self.ledger}/currterm"
        self.ledger_checkpoint = f"{self.ledger}/checkpoint"
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
