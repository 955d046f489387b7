"""The nameserver's settings, under Apache's keys where Apache has the same setting. The default paths are in the user's home."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from skyrocket.auth.users import AccessKeys
from skyrocket.net.local_address import is_loopback
from skyrocket.settings.access import INIT_USER, INNER_CREDENTIALS
from skyrocket.settings.file import read_required_texts, read_texts
from skyrocket.settings.foreign_keys import NETTY_KEYS, ForeignKey, only_with, without_effect
from skyrocket.settings.kinds import BOOLEAN, HOST, PATH, PORT, TEXT, whole
from skyrocket.settings.metrics import MonitoredSettings
from skyrocket.settings.table import setting

log = logging.getLogger(__name__)

_DAY_S: Final = 24 * 3600
_HOME: Final = Path(os.environ.get("HOME", ".")) / "namesrv"

_APACHE_KEYS: Final = {
    **NETTY_KEYS,
    **without_effect(
        "one thread serves all requests: there are no thread pools and no request queues",
        """
        clientRequestThreadPoolNums clientRequestThreadPoolQueueCapacity defaultThreadPoolNums defaultThreadPoolQueueCapacity
        unRegisterBrokerQueueCapacity
        """,
    ),
    **without_effect(
        "the nameserver needs no installation directory, and no request changes a path or an address",
        "rocketmqHome configBlackList productEnvName",
    ),
    **only_with("it does not exist here", {"clusterTest": "false", "enableControllerInNamesrv": "false"}),
    **only_with("slaves are not told when their master changes", {"notifyMinBrokerIdChanged": "false"}),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NameserverSettings(MonitoredSettings):
    OWNER: ClassVar[str] = "the nameserver"
    FOREIGN: ClassVar[Mapping[str, ForeignKey]] = _APACHE_KEYS

    # fmt: off
    # One or two lines a row.
    bind_address: str = setting("127.0.0.1", "bindAddress", HOST, "Where to listen. Apache's is 0.0.0.0: everywhere.")
    metrics_port: int = setting(5558, "metricsPromExporterPort", PORT,
        "The port of /metrics, /healthz and /readyz; 0 lets the system choose. A broker's is 5557.")
    listen_port: int = setting(9876, "listenPort", PORT, "0 lets the system choose.")
    kv_config_path: Path = setting(_HOME / "kvConfig.json", "kvConfigPath", PATH,  # noqa: RUF009 — a path is immutable
        "The file of keys and values.")
    config_store_path: Path = setting(_HOME / "namesrv.properties", "configStorePath", PATH,  # noqa: RUF009
        "Where changes made at run time are kept: the file given with -c, when there is one.")
    scan_interval_ms: int = setting(5_000, "scanNotActiveBrokerInterval", whole(10, 600_000),
        "Milliseconds between two looks for brokers that have gone silent.")
    order_message_enable: bool = setting(False, "orderMessageEnable", BOOLEAN,
        "Routes carry the order configuration of their topic.", changeable=True)
    return_order_config: bool = setting(True, "returnOrderTopicConfigToBroker", BOOLEAN,
        "Brokers get all order configuration when they register.", changeable=True)
    enable_topic_list: bool = setting(True, "enableTopicList", BOOLEAN,
        "Lists of the topics of a cluster or unit may be asked for.", changeable=True)
    enable_all_topic_list: bool = setting(True, "enableAllTopicList", BOOLEAN,
        "The list of all topics may be asked for.", changeable=True)
    support_acting_master: bool = setting(False, "supportActingMaster", BOOLEAN,
        "A slave that stands in for its master is shown as master.", changeable=True)
    delete_topics: bool = setting(False, "deleteTopicWithBrokerRegistration", BOOLEAN,
        "Topics that a broker does not name any more lose their route.", changeable=True)
    need_wait: bool = setting(False, "needWaitForService", BOOLEAN,
        "Routes are refused for a while after the start, until all brokers had the time to register.", changeable=True)
    authentication_enabled: bool = setting(False, "authenticationEnabled", BOOLEAN,
        "Whoever registers a broker or changes anything must sign as one of the two users below. Look-ups of routes are open.")
    init_user: AccessKeys | None = setting(None, "initAuthenticationUser", INIT_USER,  # noqa: RUF009 a row like the others
        "The administrator.", secret=True)
    inner_credentials: AccessKeys | None = setting(  # noqa: RUF009 a row like the others
        None, "innerClientAuthenticationCredentials", INNER_CREDENTIALS,
        "What brokers sign with: equal to that setting of every broker.", secret=True)
    audit_log_path: str = setting("", "authAuditLogPath", TEXT,
        "The audit log of refused and administrative requests; empty: auth_audit.log beside configStorePath, on loopback only "
        "with authenticationEnabled.")
    wait_s: int = setting(45, "waitSecondsForService", whole(0, _DAY_S), "For so many seconds.", changeable=True)
    # fmt: on

    @property
    def changes_path(self) -> Path:
        return self.config_store_path

    @property
    def is_audited(self) -> bool:
        """Whether there is an audit log: with access control, beyond loopback, and where a file is named for it."""
        return self.authentication_enabled or bool(self.audit_log_path) or not is_loopback(self.bind_address)

    @property
    def audit_log_file(self) -> Path:
        return Path(self.audit_log_path or self.config_store_path.parent / "auth_audit.log")

    def check(self) -> None:
        MonitoredSettings.check(self)
        if self.authentication_enabled and self.inner_credentials is None:
            raise ValueError(
                "authenticationEnabled needs innerClientAuthenticationCredentials: without them no broker could register."
            )


def read_settings(path: Path) -> NameserverSettings:
    """Read settings from a properties file. Changes at run time go there too. Raise SettingsError when it is unusable."""
    texts, warning = NameserverSettings.separate_foreign(read_required_texts(path))
    if warning is not None:
        log.warning("%s", warning)
    return NameserverSettings().with_texts({**texts, "configStorePath": str(path.absolute())})


def apply_saved_changes(settings: NameserverSettings) -> NameserverSettings:
    """Apply the changes that administrators made in earlier runs. They are in `changes_path`, if it exists.

    Only settings that may change at run time count: Apache's nameserver saves all of its settings in a file of that name.
    """
    saved = read_texts(settings.changes_path) or {}
    changeable = {key for key, row in settings.rows().items() if row.changeable}
    others = sorted(saved.keys() - changeable)
    if others:
        log.warning("%s in %s has no effect. Give it with -c FILE.", ", ".join(others), settings.changes_path)
    return settings.with_texts({key: text for key, text in saved.items() if key in changeable})
