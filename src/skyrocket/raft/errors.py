"""What this package refuses: settings that cannot work, and messages that an honest peer of the group does not send.

A refused message is no exception: the sender gets DLedger's code, and the effect `Refused` has the sentence for the log.
"""

from __future__ import annotations

from enum import Enum


class GroupError(Exception):
    """The settings of a group contradict each other."""


class RefusalReason(Enum):
    """Why a message was refused."""

    OTHER_GROUP = "other group"
    NOT_FOR_THIS_NODE = "not for this node"
    UNKNOWN_MEMBER = "unknown member"
    SAME_ID = "two nodes with one id"
    SECOND_LEADER = "two leaders in one term"
    IMPOSSIBLE_TERM = "impossible term"
    IMPOSSIBLE_ENTRY = "impossible entry"
    IMPOSSIBLE_ANSWER = "impossible answer"
    BELOW_COMMITTED = "truncation below the commit index"
    LOST_ENTRIES = "a follower has lost entries"
    LEARNER = "a node without its former votes"
    STORAGE = "storage failed"
