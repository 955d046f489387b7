"""The decision, by examples from a live Apache 5.5.0 and by properties."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyrocket.auth.decision import AccessDecision, Need, decide, refusal_remark
from skyrocket.auth.policies import Acl, ActionName, Effect, Entry, PolicyType, ResourceKind, parse_resource
from skyrocket.protocol.permissions import Action

ALLOWED, DENIED, NO_MATCH = AccessDecision.ALLOWED, AccessDecision.DENIED, AccessDecision.NO_MATCH
PUB_T1 = Need(ResourceKind.TOPIC, "T1", Action.PUB)


def entry(text: str) -> Entry:
    """`Topic:T* Pub,Sub Allow 10.0.0.0/8`"""
    resource, actions, effect, *sources = text.split()
    parsed = parse_resource(resource)
    assert parsed is not None
    return Entry(parsed, tuple(map(ActionName, actions.split(","))), Effect(effect), tuple(sources))


def acl(*custom: str, default: tuple[str, ...] = ()) -> Acl:
    return Acl(tuple(map(entry, custom)), tuple(map(entry, default)))


@pytest.mark.parametrize(
    ("rules", "verdict"),
    [
        ((), NO_MATCH),
        (("Topic:T1 Pub Allow",), ALLOWED),
        (("Topic:T1 All Allow",), ALLOWED),
        (("Topic:T1 Sub Allow",), NO_MATCH),
        (("Topic:t1 Pub Allow",), NO_MATCH),
        (("Group:T1 Pub Allow",), NO_MATCH),
        (("Topic:T1 Pub Deny",), DENIED),
        (("Topic:T1 Pub Allow", "Topic:T* Pub Deny"), ALLOWED),
        (("Topic:T* Pub Allow", "Topic:T1 Pub Deny"), DENIED),
        (("Topic:* Pub Deny", "Topic:T* Pub Allow"), ALLOWED),
        (("Topic:T* Pub Deny", "Topic:* Pub Allow"), DENIED),
        (("* Pub Deny", "Topic:* Pub Allow"), ALLOWED),
        (("* All Allow",), ALLOWED),
        (("* All Allow", "Topic:T1 Sub Deny"), ALLOWED),
        (("Topic:T1 Pub Deny 10.0.0.0/8", "Topic:* Pub Allow"), ALLOWED),
        (("Topic:T1 Pub Deny 127.0.0.0/8", "Topic:* Pub Allow"), DENIED),
        (("Topic:T1 Pub Allow 127.0.0.1",), ALLOWED),
        (("Topic:T1 Pub Allow ::/0",), ALLOWED),
        (("Topic:T1 Pub Allow ::1",), NO_MATCH),
        (("Any:T1 Pub Allow",), ALLOWED),
        (("Any:T2 Pub Allow",), NO_MATCH),
    ],
)
def test_most_specific_matching_rule_decides(rules: tuple[str, ...], verdict: AccessDecision):
    assert decide(acl(*rules), PUB_T1, "127.0.0.1") is verdict


def test_default_policy_counts_only_without_a_match_in_the_custom_one():
    assert decide(acl(default=("Topic:* Pub Allow",)), PUB_T1, "127.0.0.1") is ALLOWED
    assert decide(acl("* Pub Allow", default=("Topic:T1 Pub Deny",)), PUB_T1, "127.0.0.1") is ALLOWED
    assert decide(acl("Topic:T1 Pub Deny", default=("Topic:T1 Pub Allow",)), PUB_T1, "127.0.0.1") is DENIED


def test_one_of_several_actions_is_enough():
    need = Need(ResourceKind.GROUP, "G", Action.SUB | Action.GET)
    assert decide(acl("Group:G Get Allow"), need, "127.0.0.1") is ALLOWED
    assert decide(acl("Group:G Pub Allow"), need, "127.0.0.1") is NO_MATCH


def test_every_topic_needs_a_rule_for_every_topic():
    need = Need(ResourceKind.TOPIC, None, Action.LIST)
    assert decide(acl("Topic:* List Allow"), need, "127.0.0.1") is ALLOWED
    assert decide(acl("* List Allow"), need, "127.0.0.1") is ALLOWED
    assert decide(acl("Topic:T* List Allow", "Topic:T1 List Allow"), need, "127.0.0.1") is NO_MATCH
    assert (
        refusal_remark("a", need, "::1", NO_MATCH) == "User:a has no permission to access Topic:* from ::1, no matched policies."
    )


RESOURCES = st.sampled_from(["*", "Topic:*", "Topic:T*", "Topic:T1", "Topic:T2", "Group:*", "Group:G1", "Cluster:C", "Any:T1"])
ENTRIES = st.builds(
    lambda resource, actions, effect, source: entry(f"{resource} {','.join(actions)} {effect} {source}"),
    RESOURCES,
    st.lists(st.sampled_from(["All", "Pub", "Sub", "Get", "Update"]), min_size=1, max_size=3, unique=True),
    st.sampled_from(["Allow", "Deny"]),
    st.sampled_from(["", "127.0.0.1", "10.0.0.0/8", "::/0"]),
)
NEEDS = st.builds(
    Need,
    st.sampled_from([ResourceKind.TOPIC, ResourceKind.GROUP, ResourceKind.CLUSTER]),
    st.sampled_from(["T1", "T2", "G1", "C"]),
    st.sampled_from([Action.PUB, Action.SUB, Action.SUB | Action.GET, Action.UPDATE]),
)
ADDRESSES = st.sampled_from(["127.0.0.1", "10.1.2.3", "::1"])


@given(st.lists(ENTRIES, max_size=8), NEEDS, ADDRESSES)
def test_order_of_rules_does_not_matter_and_nothing_is_allowed_without_a_rule_that_allows(
    entries: list[Entry], need: Need, address: str
):
    verdict = decide(Acl(tuple(entries)), need, address)
    assert decide(Acl(tuple(reversed(entries))), need, address) is verdict
    allowing = [one for one in entries if one.effect is Effect.ALLOW and decide(Acl((one,)), need, address) is ALLOWED]
    denying = [one for one in entries if one.effect is Effect.DENY and decide(Acl((one,)), need, address) is DENIED]
    assert verdict is not ALLOWED or allowing
    assert verdict is not DENIED or denying
    assert (verdict is NO_MATCH) == (not allowing and not denying)


@given(st.lists(ENTRIES, max_size=8), NEEDS, ADDRESSES)
def test_a_further_deny_never_opens_anything_and_a_further_allow_never_closes_anything(
    entries: list[Entry], need: Need, address: str
):
    before = decide(Acl(tuple(entries)), need, address)
    for extra in ("* All Deny", f"{need.kind}:{need.name} All Deny", f"{need.kind}:* All Deny"):
        after = decide(Acl((*entries, entry(extra))), need, address)
        assert after is not ALLOWED or before is ALLOWED, extra
    for extra in ("* All Allow", f"{need.kind}:{need.name} All Allow", f"{need.kind}:* All Allow"):
        after = decide(Acl((*entries, entry(extra))), need, address)
        assert before is not ALLOWED or after is ALLOWED, extra


@given(st.lists(ENTRIES, max_size=8))
def test_merging_keeps_one_rule_for_each_resource(entries: list[Entry]):
    merged = Acl()
    for one in entries:
        merged = merged.merged(PolicyType.CUSTOM, [one])
    assert {one.resource: one for one in entries} == {one.resource: one for one in merged.custom}


@given(RESOURCES)
def test_a_resource_survives_its_text(text: str):
    parsed = parse_resource(text)
    assert parsed is not None
    assert parse_resource(str(parsed)) == parsed


@pytest.mark.parametrize("text", [None, "", "Topic", "Bogus:x", ":x", "Topic:" + "x" * 2000])
def test_a_text_that_names_no_resource_is_not_parsed(text: str | None):
    assert parse_resource(text) is None
