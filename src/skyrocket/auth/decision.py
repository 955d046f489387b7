"""The decision: may this user do one of these actions on this resource, from this address?

Of all entries that match, the one with the most specific resource decides; at equal resources Deny wins. So `Topic:T1 Allow`
beats `Topic:T* Deny`, as in Apache 5.5.0. An entry for other actions or other addresses does not matter. Without a match the
answer is no.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from skyrocket.auth.policies import EVERYTHING, Acl, Effect, Entry, ResourceKind
from skyrocket.auth.source_addresses import is_from
from skyrocket.protocol.permissions import Action


class Need(NamedTuple):
    """What a request needs: any one of these actions on a resource. The name None stands for every resource of the kind."""

    kind: ResourceKind
    name: str | None
    actions: Action

    def __str__(self) -> str:
        return f"{self.kind}:{EVERYTHING if self.name is None else self.name}"


class AccessDecision(Enum):
    """The answer, and the end of the sentence that a refused client gets."""

    ALLOWED = "the decision is allow."
    DENIED = "the decision is deny."
    NO_MATCH = "no matched policies."


def decide(acl: Acl, need: Need, address: str) -> AccessDecision:
    for _, entries in acl.policies():
        verdict = _decide_by(entries, need, address)
        if verdict is not AccessDecision.NO_MATCH:
            return verdict
    return AccessDecision.NO_MATCH


def _decide_by(entries: Iterable[Entry], need: Need, address: str) -> AccessDecision:
    matching = [
        entry
        for entry in entries
        if entry.mask & need.actions
        and entry.resource.matches(need.kind, need.name)
        and (not entry.sources or is_from(address, entry.sources))
    ]
    if not matching:
        return AccessDecision.NO_MATCH
    deciding = min(matching, key=lambda entry: (entry.resource.rank, entry.effect is Effect.ALLOW))
    return AccessDecision.ALLOWED if deciding.effect is Effect.ALLOW else AccessDecision.DENIED


def refusal_remark(user: str, need: Need, address: str, verdict: AccessDecision) -> str:
    """Return Apache's words for a refused request."""
    return f"User:{user} has no permission to access {need} from {address}, {verdict.value}"
