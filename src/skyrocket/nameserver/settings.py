"""The nameserver's settings: one typed row each, with Apache's key where it means the same.

A row says its key, how its text is read, its default, and whether it may change while the nameserver runs. Nothing that names a
path, an address, a command or a class may: that is how other nameservers were made to write files. Pure but for the default
paths, which lie in the user's home.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from skyrocket.nameserver.errors import FixedSettingError, SettingsError

T = TypeVar("T")


class Kind(NamedTuple):
    """What a value may be, in words, and how it is read. The reader raises ValueError."""

    words: str
    read: Callable[[str], Any]


class Row(NamedTuple):
    attribute: str
    key: str
    kind: Kind
    default: object
    changeable: bool
    note: str


def _boolean(text: str) -> bool:
    return {"true": True, "false": False}[text.lower()]


def _whole(least: int, most: int) -> Kind:
    def read(text: str) -> int:
        if not re.fullmatch(r"[0-9]{1,10}", text, re.ASCII) or not least <= int(text) <= most:
            raise ValueError(text)
        return int(text)

    return Kind(f"a whole number from {least} to {most}", read)


def _host(text: str) -> str:
    if not re.fullmatch(r"[a-zA-Z0-9_.:%-]{1,255}", text):
        raise ValueError(text)
    return text


def _path(text: str) -> Path:
    if not text or "\0" in text:
        raise ValueError(text)
    try:
        return Path(text).expanduser()
    except RuntimeError as error:  # the home of somebody unknown
        raise ValueError(text) from error


BOOLEAN: Final = Kind("true or false", _boolean)
HOST: Final = Kind("a host name or an address", _host)
PATH: Final = Kind("a path", _path)
TEXT: Final = Kind("text", str)
TLS_MODE: Final = Kind("permissive or enforcing", lambda text: {"permissive": text, "enforcing": text}[text])
PORT: Final = _whole(0, 65_535)
_DAY_S: Final = 24 * 3600


def _row(default: T, key: str, kind: Kind, note: str, *, changeable: bool = False) -> T:
    return field(default=default, metadata={"key": key, "kind": kind, "changeable": changeable, "note": note})


_HOME: Final = Path(os.environ.get("HOME", ".")) / "namesrv"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    # fmt: off
    # A row is one line, or two.
    bind_address: str = _row("127.0.0.1", "bindAddress", HOST, "Where to listen. Apache's is 0.0.0.0: everywhere.")
    listen_port: int = _row(9876, "listenPort", PORT, "0 lets the system choose.")
    kv_config_path: Path = _row(_HOME / "kvConfig.json", "kvConfigPath", PATH,  # noqa: RUF009 — a path does not change
        "The file of keys and values.")
    config_store_path: Path = _row(_HOME / "namesrv.properties", "configStorePath", PATH,  # noqa: RUF009
        "Where changes made at run time are kept: the file given with -c, when there is one.")
    scan_interval_ms: int = _row(5_000, "scanNotActiveBrokerInterval", _whole(10, 600_000),
        "Milliseconds between two looks for brokers that have gone silent.")
    idle_s: int = _row(120, "serverChannelMaxIdleTimeSeconds", _whole(1, _DAY_S),
        "Seconds without a byte after which a connection is closed.")
    order_message_enable: bool = _row(False, "orderMessageEnable", BOOLEAN,
        "Routes carry the order configuration of their topic.", changeable=True)
    return_order_config: bool = _row(True, "returnOrderTopicConfigToBroker", BOOLEAN,
        "Brokers get all order configuration when they register.", changeable=True)
    enable_topic_list: bool = _row(True, "enableTopicList", BOOLEAN,
        "Lists of the topics of a cluster or unit may be asked for.", changeable=True)
    enable_all_topic_list: bool = _row(True, "enableAllTopicList", BOOLEAN,
        "The list of all topics may be asked for.", changeable=True)
    support_acting_master: bool = _row(False, "supportActingMaster", BOOLEAN,
        "A slave that stands in for its master is shown as master.", changeable=True)
    delete_topics: bool = _row(False, "deleteTopicWithBrokerRegistration", BOOLEAN,
        "Topics that a broker does not name any more lose their route.", changeable=True)
    need_wait: bool = _row(False, "needWaitForService", BOOLEAN,
        "Routes are refused for a while after the start, until all brokers had the time to register.", changeable=True)
    tls_certificate: str = _row("", "tls.server.certPath", TEXT, "A certificate in PEM; with it, TLS is spoken on the same port.")
    tls_key: str = _row("", "tls.server.keyPath", TEXT, "Its key.")
    tls_mode: str = _row("permissive", "tls.server.mode", TLS_MODE, "permissive takes plain connections too, enforcing does not.")
    wait_s: int = _row(45, "waitSecondsForService", _whole(0, _DAY_S), "For so many seconds.", changeable=True)
    # fmt: on

    def to_texts(self) -> dict[str, str]:
        """Key -> value in the order of the keys, as Apache shows them; where certificates lie is not shown."""
        shown = [row for key, row in sorted(rows().items()) if not key.startswith("tls.")]
        return {row.key: _text(getattr(self, row.attribute)) for row in shown}

    def with_texts(self, texts: Mapping[str, str]) -> Settings:
        """SettingsError, which names every key that is unknown and every value that is wrong."""
        problems = []
        changes: dict[str, Any] = {}
        for key, text in texts.items():
            row = rows().get(key)
            if row is None:
                problems.append(f"'{key[:64]}' is not a setting of the nameserver")
                continue
            try:
                changes[row.attribute] = row.kind.read(text.strip())
            except (ValueError, KeyError):
                problems.append(f"{key} must be {row.kind.words}, not '{text[:64]}'")
        if problems:
            raise SettingsError("; ".join(problems) + ".")
        return replace(self, **changes)

    def changed_from_afar(self, texts: Mapping[str, str]) -> Settings:
        """The same for a request: all of it, or nothing. FixedSettingError for what no request may change."""
        fixed = [key for key in texts if key in NEVER_FROM_AFAR or (key in rows() and not rows()[key].changeable)]
        if fixed:
            verb = "is" if len(fixed) == 1 else "are"
            raise FixedSettingError(f"{' and '.join(fixed)} {verb} not to be changed while the nameserver runs.")
        return self.with_texts(texts)


NEVER_FROM_AFAR: Final = frozenset({"rocketmqHome", "configBlackList"})
"""Keys that Apache refuses as we do, although we do not have them."""


@cache
def rows() -> dict[str, Row]:
    """By key, in the order of the table."""
    table = {}
    for each in fields(Settings):
        key = each.metadata["key"]
        table[key] = Row(each.name, key, each.metadata["kind"], each.default, each.metadata["changeable"], each.metadata["note"])
    return table


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def with_lines(text: str, changes: Iterable[tuple[str, str]]) -> str:
    """A file of settings after a change: what a person wrote stays, the changed keys stand at the end, where they count."""
    changed = dict(changes)
    key_of = re.compile(r"[ \t\f]*([^=:\s#!]+)[ \t\f]*[=:]")
    lines = []
    continues = False  # a line that goes on in the next is left alone, and so is what it goes on in
    for line in text.splitlines():
        found = key_of.match(line)
        continued, continues = continues, line.endswith("\\")
        if continued or continues or found is None or found[1] not in changed:
            lines.append(line)
    if continues:
        lines.append("")
    lines += [f"{key}={value}" for key, value in changed.items()]
    return "\n".join(lines) + "\n"
