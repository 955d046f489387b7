"""The pages of the console, and the table of their routes: method, path, function, and the role that it needs."""

from __future__ import annotations

from typing import Final, NamedTuple

from skyrocket.console.pages import access, cluster, dead_letters, doctor, groups, messages, overview, topics, waiting
from skyrocket.console.security.users import ConsoleRole
from skyrocket.console.visit import PageFunction


class PageRoute(NamedTuple):
    method: str
    path: str
    page: PageFunction
    role: ConsoleRole


def _show(path: str, page: PageFunction) -> PageRoute:
    return PageRoute("GET", path, page, ConsoleRole.VIEWER)


def _change(path: str, page: PageFunction) -> PageRoute:
    return PageRoute("POST", path, page, ConsoleRole.OPERATOR)


ROUTES: Final = (
    _show("/", overview.show_overview),
    _show("/cluster", cluster.show_cluster),
    _show("/brokers/{address}", cluster.show_broker),
    _change("/brokers/{address}/settings", cluster.change_setting),
    _show("/topics", topics.show_topics),
    _change("/topics", topics.create_topic),
    _show("/new-topic", topics.show_new_topic),
    _show("/topics/{topic}", topics.show_topic),
    _show("/topics/{topic}/change", topics.show_topic_form),
    _change("/topics/{topic}/change", topics.change_topic),
    _show("/topics/{topic}/delete", topics.show_deletion),
    _change("/topics/{topic}/delete", topics.delete_topic),
    _change("/topics/{topic}/send", topics.send_message),
    _show("/groups", groups.show_groups),
    _change("/groups", groups.create_group),
    _show("/new-group", groups.show_new_group),
    _show("/groups/{group}", groups.show_group),
    _show("/groups/{group}/members/{client}", groups.show_member),
    _show("/groups/{group}/change", groups.show_group_form),
    _change("/groups/{group}/change", groups.change_group),
    _show("/groups/{group}/delete", groups.show_deletion),
    _change("/groups/{group}/delete", groups.delete_group),
    _show("/groups/{group}/reset", groups.show_reset),
    _change("/groups/{group}/reset", groups.reset_offsets),
    _show("/messages", messages.show_messages),
    _show("/message", messages.show_message),
    _show("/message-body", messages.download_body),
    _show("/dead-letters", dead_letters.show_dead_letters),
    _show("/dead-letters/{group}", dead_letters.show_letters),
    _show("/dead-letters/{group}/export", dead_letters.export_letters),
    _change("/dead-letters/{group}/resend", dead_letters.resend_letters),
    _show("/waiting", waiting.show_waiting),
    _show("/access", access.show_access),
    _change("/access/users", access.create_user),
    _change("/access/users/{user}", access.change_user),
    _change("/access/users/{user}/delete", access.delete_user),
    _change("/access/rules", access.create_rule),
    _change("/access/rules/delete", access.delete_rule),
    _show("/doctor", doctor.show_doctor),
)
