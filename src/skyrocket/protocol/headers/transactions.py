"""Transactions: the end of one, and the question how one ended."""

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
    """37: nothing."""


class CheckTransactionStateRequestHeader(RpcHeader, kw_only=True):
    """39: the broker asks a producer how a transaction ended."""

    topic: TopicName | None = None
    tran_state_table_offset: Int64
    commit_log_offset: Int64
    msg_id: str | None = None
    transaction_id: str | None = None
    offset_msg_id: str | None = None


class ResumeCheckHalfMessageRequestHeader(Header, kw_only=True):
    """323: start asking again about a half message that was given up."""

    topic: TopicName | None = None
    msg_id: str | None = None
