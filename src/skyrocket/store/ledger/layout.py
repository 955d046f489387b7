"""Which layout a store directory has: a commit log, or the log of a node of a DLedger group.

    <root>/commitlog          one broker, or a master and its slaves
    <root>/dledger-n0/data    node n0 of a group

A directory has one of them. One with messages in both was moved into a group: Apache's node then reads the older messages from
`commitlog`. Here such a directory is refused, with a sentence that says so: nothing is guessed, and nothing is changed.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePath
from typing import Final

from skyrocket.store.errors import StoreFormatError
from skyrocket.store.files import Files
from skyrocket.store.paths import LEDGER_PREFIX, StorePaths

_SEGMENT: Final = re.compile(r"[0-9]{20}")
_NODE_ID: Final = re.compile(r"[A-Za-z0-9_.]+")


def find_ledgers(files: Files, root: str) -> list[str]:
    """Return the ids of the nodes of DLedger groups that have a log in a store directory."""
    ids = [name.removeprefix(LEDGER_PREFIX) for name in files.names(root) if name.startswith(LEDGER_PREFIX)]
    return [each for each in ids if each and files.exists(f"{root}/{LEDGER_PREFIX}{each}/data")]


def find_paths(files: Files, root: Path | str, commit_log: Path | str | None = None) -> StorePaths:
    """Return the paths of a store whose layout its files tell. Raise StoreFormatError when they do not tell it."""
    plain = StorePaths(root, commit_log)
    if commit_log is not None:
        parent = PurePath(commit_log).parent.name
        is_ledger = parent.startswith(LEDGER_PREFIX) and PurePath(commit_log).name == "data"
        return StorePaths(root, commit_log, ledger_id=parent.removeprefix(LEDGER_PREFIX)) if is_ledger else plain
    found = find_ledgers(files, plain.root)
    if not found:
        return plain
    if len(found) > 1:
        raise StoreFormatError(
            f"{plain.root} has the logs of several nodes ({', '.join(found)}). "
            f"Name one of them: --commit-log {plain.root}/{LEDGER_PREFIX}{found[0]}/data"
        )
    if has_segments(files, plain.commit_log):
        raise StoreFormatError(
            f"{plain.root} has messages in 'commitlog' and newer ones in '{LEDGER_PREFIX}{found[0]}': it was moved into a "
            f"DLedger group. Name the log to read: --commit-log {plain.commit_log}"
        )
    return StorePaths(root, ledger_id=found[0])


def check_plain(files: Files, paths: StorePaths) -> None:
    """Raise StoreFormatError when a broker without a group is started on the directory of a node of a group."""
    found = find_ledgers(files, paths.root)
    if found and not has_segments(files, paths.commit_log):
        raise StoreFormatError(
            f"{paths.root} is the store of node {found[0]} of a DLedger group. "
            f"Start it with enableDLegerCommitLog=true and dLegerSelfId={found[0]}."
        )


def check_ledger(files: Files, paths: StorePaths) -> None:
    """Raise StoreFormatError when a node of a group is started on a directory of the other layout, or of another node."""
    node = paths.ledger_id or ""
    if not _NODE_ID.fullmatch(node):
        raise StoreFormatError(f"A node of a DLedger group cannot have the id {node!r}. Use a letter and a number, such as n0.")
    old = f"{paths.root}/commitlog"
    if has_segments(files, old):
        raise StoreFormatError(
            f"{old} has messages from before the DLedger group, which node {node} would not serve. "
            f"Start the node on an empty directory, and let consumers finish with the old broker first."
        )
    others = [each for each in find_ledgers(files, paths.root) if each != node]
    if others and node not in find_ledgers(files, paths.root):
        raise StoreFormatError(
            f"{paths.root} is the store of node {others[0]}, not of node {node}. Set dLegerSelfId={others[0]}."
        )


def has_segments(files: Files, directory: str) -> bool:
    return any(_SEGMENT.fullmatch(name) for name in files.names(directory))
