"""Transactions: commit, rollback, and the check of a transaction's state."""

from __future__ import annotations

from skyrocket.protocol.header import Header, Int32, Int64, RpcHeader
from skyrocket.protocol.permissions import TopicName


class EndTransactionRequestHeader(RpcHeader, kw_only=True):
    """37: commit or roll back a half message."""

    topic: TopicName | None = None
    producer_group: str
    tran_state_table_offset: Int64
    commit_log_offset: Int64
    commit_or_rollback: Int32
    from_transaction_check: bool = False
    msg_id: str
    transaction_id: str | None = None


class EndTransactionResponseHeader(Header):
    """37: an empty response."""


class CheckTransactionStateRequestHeader(RpcHeader, kw_only=True):
    """39: the broker checks with a producer how a transaction ended."""

    topic: TopicName | None = None
    tran_state_table_offset: Int64
    commit_log_offset: Int64
    msg_id: str | None = None
    transaction_id: str | None = None
    offset_msg_id: str | None = None


class ResumeCheckHalfMessageRequestHeader(Header, kw_only=True):
    """323: resume the checks of a half message after the limit of checks."""

    topic: TopicName | None = None
    msg_id: str | None = None
