"""The cluster: nameservers, brokers with their roles and replicas, and the runtime figures and settings of one broker."""

from __future__ import annotations

import asyncio

from skyrocket.client.admin import BrokerInfo
from skyrocket.client.admin.secret_settings import hide_secret
from skyrocket.client.admin.stage_times import parse_put_percentiles
from skyrocket.console.errors import MissingPageError
from skyrocket.console.visit import Answer, Page, PagePart, Redirect, Visit, address_of, attempt, attempt_each


async def show_cluster(visit: Visit) -> Answer:
    cluster = visit.admin.cluster
    servers, states, settings = await asyncio.gather(
        attempt(cluster.nameserver_states()), attempt(cluster.states()), attempt(cluster.nameserver_config())
    )
    masters = [one.address for one in states.value or [] if one.is_master and not one.error]
    answers = await attempt_each(masters, cluster.replication)
    known = {tuple(one.brokers) for one in servers.value or [] if not one.error}
    values = {
        "servers": servers,
        "settings": settings,
        "disagree": len(known) > 1,
        "states": states,
        "replication": dict(zip(masters, answers, strict=True)),
    }
    return Page("cluster.html", "Cluster", values)


async def show_broker(visit: Visit) -> Answer:
    broker = await _find_broker(visit)
    words = visit.query.text("q").lower()
    cluster = visit.admin.cluster
    runtime, settings, replication = await asyncio.gather(
        attempt(cluster.runtime(broker.address)),
        attempt(cluster.config(broker.address)),
        attempt(cluster.replication(broker.address)),
    )
    values = {
        "broker": broker,
        "words": words,
        "runtime": _search(runtime, words),
        "settings": _search(settings, words),
        "replication": replication,
        "stages": visit.clients.history.stages(broker.address),
        "stage_chart": visit.clients.history.stage_chart(broker.address),
        "percentiles": parse_put_percentiles(runtime.value or {}),
        "is_ours": "skyrocketVersion" in (runtime.value or {}),
    }
    return Page("broker.html", f"Broker {broker.broker_name}", values)


async def change_setting(visit: Visit) -> Answer:
    """Change one setting of a running broker. Which ones may change at run time, and to what, the broker decides."""
    broker = await _find_broker(visit)
    name, value = visit.form.required("name", "The name of the setting"), visit.form.text("value")
    await visit.admin.cluster.update_config(broker.address, {name: value})
    shown = hide_secret(name, value)  # the notice is a cookie, and the change is a line of the log
    sentence = f"{name} of {broker.broker_name} at {broker.address} is {shown}."
    return Redirect(address_of("brokers", broker.address), sentence, f"setting {name}={shown} of {broker.address}")


async def _find_broker(visit: Visit) -> BrokerInfo:
    """Return a broker that is registered: the console sends requests to no other address."""
    address = visit.path["address"]
    for broker in await visit.admin.cluster.brokers():
        if broker.address == address:
            return broker
    raise MissingPageError(f"No nameserver has a broker at {address[:80]}.")


def _search(found: PagePart[dict[str, str]], words: str) -> PagePart[dict[str, str]]:
    if found.value is None or not words:
        return found
    return PagePart({name: value for name, value in found.value.items() if words in name.lower() or words in value.lower()})
