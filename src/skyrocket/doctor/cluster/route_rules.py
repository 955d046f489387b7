"""Why clients find no route, or one that leads nowhere: nameservers, registered addresses, topics and permissions. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from skyrocket.doctor.cluster.facts import BrokerFacts, ClusterFacts, TopicFacts
from skyrocket.doctor.finding import Symptom, list_names
from skyrocket.report.texts import count_of, suggest_name


def find_silent_nameservers(facts: ClusterFacts) -> Iterator[Symptom]:
    for nameserver in facts.nameservers:
        if nameserver.error:
            yield Symptom(
                f"nameserver {nameserver.address}",
                f"Nameserver {nameserver.address} does not answer. Clients go on with the others, until those fail too.",
                nameserver.error,
                "Is it running, is the address right, does a firewall block the port? Nameservers listen on 9876 by default.",
            )


def find_no_brokers(facts: ClusterFacts) -> Iterator[Symptom]:
    answering = [one for one in facts.nameservers if not one.error]
    if answering and not any(one.brokers for one in answering):
        yield Symptom(
            "cluster",
            "No broker is registered. Every send and every subscription ends with 'No route info of this topic'.",
            f"{list_names(one.address for one in answering)} answered, and knows no broker.",
            "Start a broker, or correct its namesrvAddr: it has to name these nameservers. A broker registers when it starts and "
            "every 30 s; its log says why it cannot.",
        )


def find_differing_nameservers(facts: ClusterFacts) -> Iterator[Symptom]:
    answering = [one for one in facts.nameservers if not one.error]
    everything = sorted(set().union(*(one.brokers for one in answering)))
    for name, address in everything:
        lacking = [one.address for one in answering if (name, address) not in one.brokers]
        if not lacking or len(lacking) == len(answering):
            continue
        told = next((one.config.get("namesrvAddr", "") for one in facts.brokers if one.address == address), "")
        yield Symptom(
            f"broker {name} ({address})",
            f"Broker {name} is registered with some nameservers only. Clients that ask another one get 'No route info', or a "
            "route without this broker.",
            f"Unknown at {list_names(lacking)}. namesrvAddr of the broker: {told or 'not known'}.",
            f"Let namesrvAddr name all nameservers ({';'.join(one.address for one in facts.nameservers)}), and look whether the "
            "broker reaches them.",
        )


def find_unreachable_brokers(facts: ClusterFacts) -> Iterator[Symptom]:
    for broker in facts.brokers:
        if broker.error:
            yield Symptom(
                broker.about,
                f"The nameserver says that broker {broker.name} is at {broker.address}, and nobody answers there as it should.",
                f"{broker.error}{_explain_address(broker, facts)}",
                "If the broker runs, it registered an address that cannot be reached from here: set brokerIP1 in its broker.conf "
                "to one that clients reach (and brokerIP2 for slaves), and start it again. Otherwise start the broker, and look "
                "at firewalls for its port and the port two below. If it closes connections at once, it has as many connections "
                "as it may: its log says so.",
            )


def find_refusing_brokers(facts: ClusterFacts) -> Iterator[Symptom]:
    for broker in facts.brokers:
        if broker.refusal:
            yield Symptom(
                broker.about,
                f"Broker {broker.name} answers, and does not tell how it is.",
                broker.refusal,
                "Give the keys of a user who may ask: --access-key with --secret-key, or ROCKETMQ_ACCESS_KEY with "
                "ROCKETMQ_SECRET_KEY. It needs Get on the cluster, and a broker that knows it: skyrocket acl get-user NAME.",
            )


def _explain_address(broker: BrokerFacts, facts: ClusterFacts) -> str:
    host = broker.address.rpartition(":")[0].strip("[]")
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return ""
    if address.is_unspecified:
        return f" {host} is no address that anybody can connect to."
    if address.is_loopback and not all(one.address.startswith(("127.", "localhost", "[::1]")) for one in facts.nameservers):
        return f" {host} is the loopback address: each client that gets it asks its own machine."
    if address in ipaddress.ip_network("172.16.0.0/12"):
        return f" {host} may be an address inside a container, which others do not reach."
    return ""


def find_missing_masters(facts: ClusterFacts) -> Iterator[Symptom]:
    for name in sorted({broker.name for broker in facts.brokers}):
        members = [broker for broker in facts.brokers if broker.name == name]
        if not any(broker.is_master for broker in members):
            yield Symptom(
                f"broker {name}",
                f"Broker {name} has no master: it takes no messages. Consumers read from its slaves.",
                f"Registered: {list_names(f'{one.address} (id {one.broker_id})' for one in members)}.",
                "Start the master again. In a DLedger group, a majority of the nodes must run and reach each other.",
            )


# --- topics


def find_missing_topics(facts: ClusterFacts) -> Iterator[Symptom]:
    for topic in facts.topics:
        if not topic.places:
            yield Symptom(f"topic {topic.topic}", *_explain_missing_topic(topic, facts))


def _explain_missing_topic(topic: TopicFacts, facts: ClusterFacts) -> tuple[str, str, str]:
    """Return what, evidence and advice."""
    name = topic.topic
    if topic.holders:
        return (
            f"No nameserver has a route of topic '{name}', although brokers have the topic: 'No route info of this topic'.",
            f"The topic is at {list_names(topic.holders)}.",
            "The broker does not reach the nameserver, or has just started: wait 30 s, then look at its log and its namesrvAddr.",
        )
    refusing = [broker.name for broker in facts.masters if broker.config.get("autoCreateTopicEnable") == "false"]
    creating = [broker.name for broker in facts.masters if broker.config.get("autoCreateTopicEnable") == "true"]
    near = suggest_name(name, facts.topic_names)
    if refusing and not creating:
        return (
            f"Topic '{name}' does not exist, and brokers do not create topics by themselves: 'No route info of this topic'.",
            f"autoCreateTopicEnable is false at {list_names(refusing)}. {near}".rstrip(),
            f"Create it with: skyrocket topic create {name}",
        )
    return (
        f"Topic '{name}' does not exist: its consumers get nothing and say 'No route info of this topic'.",
        f"autoCreateTopicEnable is true at {list_names(creating)}: the first message creates the topic. {near}".rstrip()
        if creating
        else near or "No broker has it.",
        f"Check the name and the namespace, or create it with: skyrocket topic create {name}",
    )


def find_unreadable_topics(facts: ClusterFacts) -> Iterator[Symptom]:
    for topic in facts.topics:
        closed = [place.broker_name for place in topic.places if "r" not in place.permission]
        if closed:
            what = f"cannot be read at {count_of(len(closed), 'broker')}: consumers get nothing from there."
            yield _closed_topic(topic, closed, what, facts)


def find_unwritable_topics(facts: ClusterFacts) -> Iterator[Symptom]:
    for topic in facts.topics:
        closed = [place.broker_name for place in topic.places if "w" not in place.permission or not place.write_queues]
        if closed:
            what = f"takes no messages at {count_of(len(closed), 'broker')}. If that is all of them, producers say "
            yield _closed_topic(topic, closed, f"{what}'No route info of this topic'.", facts)


def _closed_topic(topic: TopicFacts, closed: list[str], what: str, facts: ClusterFacts) -> Symptom:
    return Symptom(
        f"topic {topic.topic}",
        f"Topic '{topic.topic}' {what}",
        f"{_permissions(topic)} {_broker_permissions(closed, facts)}".rstrip(),
        f"Allow it with: skyrocket topic create {topic.topic} --perm rw; for a whole broker: skyrocket config set BROKER "
        "brokerPermission=6",
    )


def _permissions(topic: TopicFacts) -> str:
    return f"Permissions in the route: {list_names(f'{place.broker_name} {place.permission}' for place in topic.places)}."


def _broker_permissions(names: list[str], facts: ClusterFacts) -> str:
    told = {one.name: one.config["brokerPermission"] for one in facts.masters if one.config.get("brokerPermission", "6") != "6"}
    found = [f"brokerPermission of {name} is {told[name]}" for name in names if name in told]
    return f"{list_names(found)}." if found else ""


def find_unbalanced_topics(facts: ClusterFacts) -> Iterator[Symptom]:
    """Find topics that some masters of a cluster have and others not, or with another number of queues."""
    for topic in facts.topics:
        for cluster in sorted({place.cluster for place in topic.places}):
            places = [place for place in topic.places if place.cluster == cluster]
            masters = sorted({broker.name for broker in facts.masters if broker.cluster == cluster})
            lacking = [name for name in masters if name not in {place.broker_name for place in places}]
            counts = {place.broker_name: place.write_queues for place in places}
            if not lacking and len(set(counts.values())) <= 1:
                continue
            automatic = [one.name for one in facts.masters if one.config.get("autoCreateTopicEnable") == "true"]
            cause = (
                f" autoCreateTopicEnable is true at {list_names(automatic)}: the first message creates a topic at the broker "
                "that it comes to, and only there."
                if lacking and automatic
                else ""
            )
            yield Symptom(
                f"topic {topic.topic}",
                f"Topic '{topic.topic}' is not spread evenly over cluster {cluster}: some brokers carry its whole load.",
                f"Queues: {list_names(f'{name} {count}' for name, count in counts.items())}"
                f"{f'; none at {list_names(lacking)}' if lacking else ''}.{cause}",
                f"Give all brokers the same queues: skyrocket topic create {topic.topic} --queues "
                f"{max(counts.values())}. In production, set autoCreateTopicEnable=false.",
            )
