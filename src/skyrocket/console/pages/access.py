"""Access control of the brokers: users and their rules. A broker without it says so on the page."""

from __future__ import annotations

import asyncio
from typing import Final, NamedTuple

from skyrocket.console.errors import InputError
from skyrocket.console.limits import ROWS_PER_PAGE
from skyrocket.console.paging import cut_page
from skyrocket.console.visit import Answer, Page, Redirect, Visit, attempt

ACTIONS: Final = ("Pub", "Sub", "Create", "Update", "Delete", "Get", "List", "All")
_SWITCHES: Final = ("authenticationEnabled", "authorizationEnabled")
_DECISIONS: Final = {"Allow": False, "Deny": True}  # whether it denies


async def show_access(visit: Visit) -> Answer:
    words = visit.query.text("q")
    access = visit.admin.access
    users, rules, switches = await asyncio.gather(
        attempt(access.list_users(words)), attempt(access.list_rules(words)), attempt(_read_switches(visit))
    )
    number = visit.query.number("page", "The page", 1, 10**6) or 1
    values = {
        "switches": switches,
        "is_off": bool(switches.value) and not any(one.is_on for one in switches.value or []),
        "users": users,
        "rules": rules,
        "user_page": cut_page(sorted(users.value or [], key=lambda one: one.name), number),
        "rule_rows": sorted(rules.value or [], key=lambda one: (one.user, one.resource))[: 10 * ROWS_PER_PAGE],
        "words": words,
        "actions": ACTIONS,
        "decisions": list(_DECISIONS),
    }
    return Page("access.html", "Access control", values)


class AccessSwitch(NamedTuple):
    """Whether a broker asks who a client is, and what that client may do."""

    sentence: str
    is_on: bool


async def _read_switches(visit: Visit) -> list[AccessSwitch]:
    """Ask each master."""
    switches = []
    for broker in await visit.admin.cluster.brokers():
        if broker.is_master:
            settings = await visit.admin.cluster.config(broker.address)
            states = ["on" if settings.get(name) == "true" else "off" for name in _SWITCHES]
            sentence = f"{broker.broker_name}: authentication is {states[0]}, authorization is {states[1]}."
            switches.append(AccessSwitch(sentence, "on" in states))
    return switches


async def create_user(visit: Visit) -> Answer:
    name = visit.form.required("name", "The name of the user")
    is_super = visit.form.is_set("super")
    await visit.admin.access.create_user(name, visit.form.required("password", "The password"), is_super=is_super)
    return Redirect("/access", f"User {name} is created.", f"{'super ' if is_super else ''}user {name} created")


async def change_user(visit: Visit) -> Answer:
    """Enable or disable a user, or give it another password. Fields that are empty change nothing."""
    name = visit.path["user"]
    state = visit.form.choice("state", "The state", ("", "enable", "disable"))
    password = visit.form.raw("password") or None
    await visit.admin.access.update_user(name, password=password, is_enabled=None if not state else state == "enable")
    changes = [f"{state}d"] if state else []
    changes += ["given a new password"] if password else []
    sentence = f"user {name} is {' and '.join(changes) or 'not changed'}"
    return Redirect("/access", sentence.capitalize() + ".", sentence)


async def delete_user(visit: Visit) -> Answer:
    name = visit.path["user"]
    visit.form.confirm(name)
    await visit.admin.access.delete_user(name)
    return Redirect("/access", f"User {name} is deleted, with its rules.", f"user {name} deleted")


async def create_rule(visit: Visit) -> Answer:
    form = visit.form
    user, resource = form.required("user", "The user"), form.required("resource", "The resource")
    actions = [action for action in form.all("action") if action in ACTIONS]
    if not actions:
        raise InputError(f"Choose the actions that the rule is about: {', '.join(ACTIONS)}. Nothing was changed.")
    decision = form.choice("decision", "The decision", _DECISIONS)
    sources = form.text("sources").replace(",", " ").split()
    await visit.admin.access.create_rules(user, [resource], actions, deny=_DECISIONS[decision], sources=sources)
    told = f"{decision} {', '.join(actions)} on {resource} for {user}{f' from {sources}' if sources else ''}"
    return Redirect("/access", f"The rule is written: {told}.", f"rule written: {told}")


async def delete_rule(visit: Visit) -> Answer:
    user, resource = visit.form.required("user", "The user"), visit.form.required("resource", "The resource")
    visit.form.confirm(resource)
    await visit.admin.access.delete_rules(user, resource, is_default=visit.form.is_set("default"))
    told = f"rule of {user} for {resource}"
    return Redirect("/access", f"The {told} is deleted.", f"{told} deleted")
