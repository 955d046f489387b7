"""The two small files of a DLedger node, as Java writes its properties: a name, `=` and a value on each line.

    currterm      voteLeader=n2        for whom the node has voted in this term; empty: for nobody
                  currTerm=4
                  learner=true         ours, and only while it holds: the node has lost its former votes, see `skyrocket.raft`
    checkpoint    committedIndex=208   the last entry that the group has confirmed, as far as this node had heard
                  endIndex=208         the last entry of its log

Apache's node replaces each file without a sync, so a power failure can take a vote back. Here both are on disk before anybody is
told. A missing `currterm` means term 0, no vote, and that earlier ones may be lost. A missing `checkpoint` means that nothing is
confirmed.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from skyrocket.store.errors import StoreFormatError
from skyrocket.store.files import Files

_LINE: Final = re.compile(r"\s*([A-Za-z]+)\s*[=:]\s*(\S*)\s*")
_NUMBER: Final = re.compile(r"-?[0-9]{1,18}")
_SMALL_BYTES_MAX: Final = 4096  # of a file that a node wrote; more is none


class TermVote(NamedTuple):
    """The term of a node, and for whom it voted in it; None: for nobody.

    Apache's node does not know `is_learner`, ignores it, and forgets it with its next vote.
    """

    term: int = 0
    voted_for: str | None = None
    is_learner: bool = False  # votes for nobody until it has the entries that it may have lost with its disk


class LedgerCheckpoint(NamedTuple):
    """The last entry of the log, and the last one that the group has confirmed; -1 when there is none."""

    end_index: int = -1
    committed_index: int = -1


def encode_term(state: TermVote) -> bytes:
    learner = "learner=true\n" if state.is_learner else ""
    return f"voteLeader={state.voted_for or ''}\ncurrTerm={state.term}\n{learner}".encode()


def decode_term(data: bytes, path: str = "currterm") -> TermVote:
    """Decode the file. Raise StoreFormatError for anything else: a node that forgot its vote could vote twice."""
    found = _properties(data)
    term = found.get("currTerm", "")
    if not _NUMBER.fullmatch(term) or int(term) < 0:
        raise StoreFormatError(f"{path} does not say the node's term. Put the term of the group there as 'currTerm=N'.")
    return TermVote(int(term), found.get("voteLeader") or None, found.get("learner") == "true")


def encode_ledger_checkpoint(checkpoint: LedgerCheckpoint) -> bytes:
    return f"committedIndex={checkpoint.committed_index}\nendIndex={checkpoint.end_index}\n".encode()


def decode_ledger_checkpoint(data: bytes) -> LedgerCheckpoint:
    """Decode the file. What it does not say counts as -1: the group confirms it again."""
    found = _properties(data)
    end, committed = (found.get(name, "") for name in ("endIndex", "committedIndex"))
    return LedgerCheckpoint(*(int(each) if _NUMBER.fullmatch(each) else -1 for each in (end, committed)))


def _properties(data: bytes) -> dict[str, str]:
    lines = data[:_SMALL_BYTES_MAX].decode("latin-1").splitlines()
    return {match[1]: match[2] for line in lines if (match := _LINE.fullmatch(line))}


class TermFile:
    """Reads and replaces `currterm`. A write is durable on return, all or nothing; any thread may call it."""

    def __init__(self, files: Files, path: str) -> None:
        self._files = files
        self._path = path

    def read(self) -> TermVote:
        """Return what the node has promised. Without the file nobody knows: the node begins as a learner."""
        if not self._files.exists(self._path):
            return TermVote(is_learner=True)
        return decode_term(self._files.read(self._path), self._path)

    def write(self, state: TermVote) -> None:
        self._files.replace(self._path, encode_term(state))


class LedgerCheckpointFile:
    """Reads and replaces `checkpoint` of a node."""

    def __init__(self, files: Files, path: str) -> None:
        self._files = files
        self._path = path
        self._written: LedgerCheckpoint | None = None

    def read(self) -> LedgerCheckpoint:
        if not self._files.exists(self._path):
            return LedgerCheckpoint()
        return decode_ledger_checkpoint(self._files.read(self._path))

    def write(self, checkpoint: LedgerCheckpoint) -> None:
        """Write the file, all or nothing. An unchanged one is not written."""
        if checkpoint != self._written:
            self._files.replace(self._path, encode_ledger_checkpoint(checkpoint))
            self._written = checkpoint
