"""`skyrocket acl …`: users and their rules, and the conversion of RocketMQ 4's plain_acl.yml."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Any, Final, TypedDict

import typer

from skyrocket.auth.errors import AccessError
from skyrocket.auth.plain_acl import Converted, convert_plain_acl
from skyrocket.auth.policies import PolicyType
from skyrocket.cli.cluster_command import CommandOptions, cluster_command, refuse
from skyrocket.cli.confirmation import Plan
from skyrocket.cli.output import CommandResult, format_table
from skyrocket.client import Admin
from skyrocket.client.admin import AccessRule, AccessUser
from skyrocket.client.errors import NotFoundError

app = typer.Typer(no_args_is_help=True, add_completion=False)

User = Annotated[str, typer.Argument(metavar="USER", help="The user's name, which is the access key of its clients.")]
Resources = Annotated[
    list[str],
    typer.Option("--resource", "-r", metavar="RESOURCE", help="Topic:orders, Topic:ord*, Group:*, Cluster:*, or *. Repeat it."),
]
Actions = Annotated[
    str, typer.Option("--actions", "-a", metavar="ACTIONS", help="Pub,Sub,Create,Update,Delete,Get,List, or All.")
]
Deny = Annotated[bool, typer.Option("--deny", help="Deny the actions. Without it, allow them.")]
Sources = Annotated[
    list[str] | None, typer.Option("--from", metavar="ADDRESS", help="An address or network that the rule is for. Repeat it.")
]
Default = Annotated[bool, typer.Option("--default", help="The rule counts only where no other rule matches.")]
_PLACE: Final[dict[str, tuple[Any, Any]]] = {
    "broker_cluster": (Annotated[str | None, typer.Option(help="Only the brokers of this cluster.")], None),
    "broker": (Annotated[str | None, typer.Option("--broker", "-b", help="Only this broker: a name, or host:port.")], None),
}


class BrokerChoice(TypedDict):
    """The brokers that a command is for: all of them, slaves included, unless it names a cluster or a broker."""

    cluster: str | None
    broker: str | None


Super = Annotated[bool | None, typer.Option("--super/--normal", help="A Super user may do everything.", show_default=False)]
NewPassword = Annotated[
    str,
    typer.Option(
        "--password",
        envvar="ROCKETMQ_NEW_PASSWORD",
        prompt="Password of the new user",
        hide_input=True,
        confirmation_prompt=True,
        help="The secret key of its clients. Without it, the command asks for it.",
    ),
]


@cluster_command(app, name="create-user", more=_PLACE)
async def create_user(
    options: CommandOptions,
    user: User,
    password: NewPassword,
    is_super: Super = False,
    **place: Any,
) -> CommandResult:
    """Create a user at every broker, slaves included."""
    async with options.admin() as admin:
        await admin.access.create_user(user, password, is_super=bool(is_super), **_brokers(place))
    return CommandResult({"user": user}, f"User {user} is created.")


@cluster_command(app, name="update-user", destroys=True, more=_PLACE)
async def update_user(
    options: CommandOptions,
    user: User,
    password: Annotated[str | None, typer.Option(envvar="ROCKETMQ_NEW_PASSWORD", help="A new secret key.")] = None,
    is_super: Super = None,
    enabled: Annotated[bool | None, typer.Option("--enable/--disable", help="A disabled user can do nothing.")] = None,
    **place: Any,
) -> CommandResult:
    """Change a user's password, type or status."""
    if password is None and is_super is None and enabled is None:
        refuse("Nothing to change. Give --password, --super or --normal, --enable or --disable.")
    async with options.admin() as admin:
        if options.confirmation.needs_plan:
            await admin.access.get_user(user, **_brokers(place))
            plan = _plan_update(user, has_password=password is not None, is_super=is_super, is_enabled=enabled)
            if not options.confirmation.allows(plan):
                return plan.dry_result()
        await admin.access.update_user(user, password=password, is_super=is_super, is_enabled=enabled, **_brokers(place))
    return CommandResult({"user": user}, f"User {user} is changed.")


def _plan_update(user: str, *, has_password: bool, is_super: bool | None, is_enabled: bool | None) -> Plan:
    """Say what a change takes away: a password that clients use, or rights. More rights take nothing away."""
    changes = {
        "gets a new password: clients with the old one are refused": has_password,
        "becomes a Super user, who may do everything": is_super is True,
        "becomes a Normal user, who needs rules": is_super is False,
        "is enabled": is_enabled is True,
        "is disabled, and can do nothing": is_enabled is False,
    }
    sentence = f"User {user} {'; '.join(change for change, is_made in changes.items() if is_made)}."
    document = {"user": user, "password": has_password, "isSuper": is_super, "isEnabled": is_enabled}
    return Plan(sentence, document, is_harmless=not has_password and is_super is not False and is_enabled is not False)


@cluster_command(app, name="delete-user", destroys=True, more=_PLACE)
async def delete_user(options: CommandOptions, user: User, **place: Any) -> CommandResult:
    """Delete a user and its rules."""
    async with options.admin() as admin:
        await admin.access.get_user(user, **_brokers(place))
        plan = Plan(f"User {user} will be deleted, with its rules: its clients can do nothing from then on.", {"user": user})
        if not options.confirmation.allows(plan):
            return plan.dry_result()
        await admin.access.delete_user(user, **_brokers(place))
    return CommandResult({"user": user}, f"User {user} is deleted.")


@cluster_command(app, name="get-user", more=_PLACE)
async def get_user(options: CommandOptions, user: User, **place: Any) -> CommandResult:
    """Show a user, without its password."""
    async with options.admin() as admin:
        found = await admin.access.get_user(user, **_brokers(place))
    return CommandResult(found, _user_table([found]))


@cluster_command(app, name="list-users", more=_PLACE)
async def list_users(
    options: CommandOptions,
    part: Annotated[str, typer.Argument(metavar="[PART]", help="Only users whose names contain this.")] = "",
    **place: Any,
) -> CommandResult:
    """List users, without their passwords."""
    async with options.admin() as admin:
        found = await admin.access.list_users(part, **_brokers(place))
    return CommandResult(found, _user_table(found))


@cluster_command(app, name="update", destroys=True, more=_PLACE)  # servers treat both alike
@cluster_command(app, destroys=True, more=_PLACE)
async def create(
    options: CommandOptions,
    user: User,
    resource: Resources,
    actions: Actions,
    deny: Deny = False,
    sources: Sources = None,
    default: Default = False,
    **place: Any,
) -> CommandResult:
    """Allow or deny a user actions on resources. A rule with the same resource is replaced."""
    async with options.admin() as admin:
        if options.confirmation.needs_plan:
            known = await _rules_for(admin, user, place)
            plan = _plan_rules(user, [one for one in known if one.resource in resource and one.is_default == default])
            if not options.confirmation.allows(plan):
                return plan.dry_result()
        await admin.access.create_rules(
            user,
            resource,
            _split(actions),
            deny=deny,
            sources=sources or (),
            is_default=default,
            **_brokers(place),
        )
        rules = await _rules_for(admin, user, place)
    return CommandResult(rules, _rule_table(rules))


def _plan_rules(user: str, replaced: list[AccessRule]) -> Plan:
    count = f"{len(replaced)} rule{'' if len(replaced) == 1 else 's'}" if replaced else "No rule"
    sentence = f"{count} of {user} will be replaced{': ' if replaced else ''}{', '.join(one.resource for one in replaced)}."
    table = _rule_table(replaced) if replaced else ""
    return Plan(sentence, {"user": user, "replaced": replaced}, table, is_harmless=not replaced)


@cluster_command(app, destroys=True, more=_PLACE)
async def delete(
    options: CommandOptions,
    user: User,
    resource: Annotated[str | None, typer.Option("--resource", "-r", help="Only the rule of this resource.")] = None,
    default: Default = False,
    **place: Any,
) -> CommandResult:
    """Delete the rule of one resource, or all rules of a user."""
    async with options.admin() as admin:
        if options.confirmation.needs_plan:
            rules = [rule for rule in await _rules_for(admin, user, place) if resource in (None, rule.resource)]
            plan = Plan(
                f"{len(rules)} rules of {user} will be deleted.",
                {"user": user, "rules": rules},
                _rule_table(rules) if rules else "",
            )
            if not options.confirmation.allows(plan):
                return plan.dry_result()
        await admin.access.delete_rules(user, resource, is_default=default, **_brokers(place))
    what = "All rules" if resource is None else f"The rule for {resource}"
    return CommandResult({"user": user, "resource": resource}, f"{what} of {user}: deleted.")


@cluster_command(app, more=_PLACE)
async def get(options: CommandOptions, user: User, **place: Any) -> CommandResult:
    """Show the rules of a user."""
    async with options.admin() as admin:
        await admin.access.get_user(user, **_brokers(place))
        rules = await _rules_for(admin, user, place)
    return CommandResult(rules, _rule_table(rules))


@cluster_command(app, name="list", more=_PLACE)
async def list_rules(
    options: CommandOptions,
    user: Annotated[str, typer.Option("--user", help="Only users whose names contain this.")] = "",
    resource: Annotated[str, typer.Option("--resource", "-r", help="Only resources that contain this.")] = "",
    **place: Any,
) -> CommandResult:
    """List the rules of all users."""
    async with options.admin() as admin:
        found = await admin.access.list_rules(user, resource, **_brokers(place))
    return CommandResult(found, _rule_table(found))


@cluster_command(app, more=_PLACE)
async def convert(
    options: CommandOptions,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A plain_acl.yml of RocketMQ 4.")],
    apply: Annotated[bool, typer.Option("--apply", help="Create the users that do not exist yet, and their rules.")] = False,
    **place: Any,
) -> CommandResult:
    """Show the users and rules that a plain_acl.yml means. With --apply, create them at the brokers."""
    text = await asyncio.to_thread(file.read_text, errors="replace")
    try:
        converted = convert_plain_acl(text)
    except AccessError as error:
        refuse(f"{file} cannot be converted: {error}")
    if apply:
        async with options.admin() as admin:
            await _apply(admin, converted, place)
    users = [AccessUser(name=user.name, is_super=user.is_super, is_enabled=True) for user, _ in converted.users]
    rules = _rules_of(converted)
    lines = [_user_table(users), "", _rule_table(rules), *(f"Left out: {sentence}." for sentence in converted.left_out)]
    return CommandResult({"users": users, "rules": rules, "leftOut": converted.left_out}, "\n".join(lines))


def _brokers(place: dict[str, Any]) -> BrokerChoice:
    """Return the brokers that a command is for, as `Admin.access` takes them."""
    return {"cluster": place["broker_cluster"], "broker": place["broker"]}


async def _rules_for(admin: Admin, user: str, place: dict[str, Any]) -> list[AccessRule]:
    """Return the rules of one user. Servers look for a part of the name."""
    return [rule for rule in await admin.access.list_rules(user, **_brokers(place)) if rule.user == user]


async def _apply(admin: Admin, converted: Converted, place: dict[str, Any]) -> None:
    for user, acl in converted.users:
        try:
            await admin.access.get_user(user.name, **_brokers(place))
            continue  # as Apache's migration: a user that exists is left alone
        except NotFoundError:
            await admin.access.create_user(user.name, user.password, is_super=user.is_super, **_brokers(place))
        for kind, entries in acl.policies():
            for entry in entries:
                await admin.access.create_rules(
                    user.name,
                    [str(entry.resource)],
                    [*map(str, entry.actions)],
                    deny=entry.effect == "Deny",
                    is_default=kind is PolicyType.DEFAULT,
                    **_brokers(place),
                )


def _rules_of(converted: Converted) -> list[AccessRule]:
    return [
        AccessRule(
            user=user.name,
            resource=str(entry.resource),
            actions=tuple(map(str, entry.actions)),
            decision=str(entry.effect),
            sources=entry.sources,
            is_default=kind is PolicyType.DEFAULT,
        )
        for user, acl in converted.users
        for kind, entries in acl.policies()
        for entry in entries
    ]


def _split(actions: str) -> list[str]:
    return [action.strip() for action in actions.split(",") if action.strip()]


def _user_table(users: list[AccessUser]) -> str:
    rows = [(one.name, "Super" if one.is_super else "Normal", "enabled" if one.is_enabled else "disabled") for one in users]
    return format_table(("USER", "TYPE", "STATUS"), rows, "There are no such users.")


def _rule_table(rules: list[AccessRule]) -> str:
    rows = [
        (
            one.user,
            "default" if one.is_default else "custom",
            one.resource,
            ",".join(one.actions),
            one.decision,
            ",".join(one.sources) or "everywhere",
        )
        for one in rules
    ]
    return format_table(("USER", "POLICY", "RESOURCE", "ACTIONS", "DECISION", "FROM"), rows, "There are no such rules.")
