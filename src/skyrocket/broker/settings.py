"""Every setting of a broker. A setting with the meaning of one of Apache's has Apache's name."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from skyrocket.auth.users import AccessKeys
from skyrocket.broker.apache_keys import APACHE_KEYS
from skyrocket.broker.dledger.group_settings import read_group
from skyrocket.broker.replication.roles import BrokerRole
from skyrocket.net.address_server import address_server_url
from skyrocket.net.errors import NetError
from skyrocket.net.local_address import is_loopback, is_wildcard
from skyrocket.net.tls import client_context
from skyrocket.protocol.sysflag import PERM_READ, PERM_WRITE
from skyrocket.protocol.system_names import TRACE_TOPIC
from skyrocket.raft.config import DLEDGER_TIMINGS, FAST_TIMINGS, Timings
from skyrocket.settings.access import INIT_USER, INNER_CREDENTIALS, REQUEST_CODES
from skyrocket.settings.foreign_keys import ForeignKey
from skyrocket.settings.kinds import ADDRESSES, BOOLEAN, HOST, PORT, TEXT, WORD, one_of, whole
from skyrocket.settings.metrics import MonitoredSettings
from skyrocket.settings.table import setting
from skyrocket.store.config import DELAY_LEVELS, StoreConfig

CHANGES_FILE: Final = "skyrocket.properties"  # Apache's broker ignores this file
_SIZE: Final = whole(4096, 2**31 - 1)
_MS: Final = whole(1, 2**31 - 1)
_PERCENT: Final = whole(10, 95)
_FLUSH: Final = one_of({"SYNC_FLUSH": True, "ASYNC_FLUSH": False})
_ROLE: Final = one_of({role.value: role for role in BrokerRole})


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings(MonitoredSettings):
    OWNER: ClassVar[str] = "the broker"
    FOREIGN: ClassVar[Mapping[str, ForeignKey]] = APACHE_KEYS

    # fmt: off
    # One setting a row, of one or two lines.
    cluster_name: str = setting("DefaultCluster", "brokerClusterName", WORD, "The cluster of the broker.")
    broker_name: str = setting("broker-a", "brokerName", WORD, "The name that a master and its slaves share.")
    broker_id: int = setting(0, "brokerId", whole(0, 2**31 - 1), "0 is the master.")
    host: str = setting("127.0.0.1", "bindAddress", HOST, "The address to listen on. Apache's default is 0.0.0.0, all.")
    advertised_host: str = setting("", "brokerIP1", TEXT, "The address that clients connect to; empty: bindAddress.")
    port: int = setting(10911, "listenPort", PORT, "The port to listen on; 0 lets the system choose.")
    namesrv_addr: str = setting("", "namesrvAddr", ADDRESSES, "The nameservers, as host:port;host:port.")
    find_nameservers: bool = setting(False, "fetchNamesrvAddrByAddressServer", BOOLEAN,
        "Ask an address server for the nameservers, unless namesrvAddr names them.")
    address_server: str = setting("", "rmqAddressServerDomain", TEXT,
        "The address server: host, host:port or a URL. A host has the port 8080 and the path /rocketmq/nsaddr.")
    address_server_group: str = setting("nsaddr", "rmqAddressServerSubGroup", WORD, "The last part of that path.")
    address_server_interval_ms: int = setting(10_000, "fetchNamesrvAddrInterval", whole(100, 2**31 - 1),
        "Milliseconds between two questions to the address server.")
    store_path: str = setting("store", "storePathRootDir", TEXT, "The directory of messages and progress.")
    commit_log_path: str = setting("", "storePathCommitLog", TEXT,
        "The directory of the commit log; empty: commitlog in storePathRootDir.")
    consume_queue_path: str = setting("", "storePathConsumeQueue", TEXT,
        "The directory of the consume queues; empty: consumequeue in storePathRootDir.")
    index_path: str = setting("", "storePathIndex", TEXT, "The directory of the key index; empty: index in storePathRootDir.")
    config_path: str = setting("", "brokerConfigPath", TEXT,
        "The file for changes made at run time: the one given with -c; empty: config/skyrocket.properties in the store.")
    permission: int = setting(PERM_READ | PERM_WRITE, "brokerPermission", whole(0, 7),
        "4 read, 2 write, 6 both.", changeable=True)

    role: BrokerRole = setting(BrokerRole.ASYNC_MASTER, "brokerRole", _ROLE,  # noqa: RUF009 a row like the others
        "ASYNC_MASTER, SYNC_MASTER (a send waits for slaves) or SLAVE (copies its master, and takes no messages).")
    ha_host: str = setting("", "brokerIP2", TEXT, "The address that slaves connect to; empty: brokerIP1.")
    ha_port: int = setting(0, "haListenPort", PORT, "The port that slaves connect to; 0: listenPort + 1.")
    ha_master_address: str = setting("", "haMasterAddress", ADDRESSES,
        "The address that a slave copies from; empty: what the nameserver says of its master.")
    in_sync_replicas: int = setting(0, "inSyncReplicas", whole(0, 255),
        "Copies that a send waits for, the master's own included; 0: 2 for SYNC_MASTER, 1 for others.", changeable=True)
    slave_timeout_ms: int = setting(3_000, "slaveTimeout", _MS,
        "Milliseconds that a send waits for slaves; then the answer is FLUSH_SLAVE_TIMEOUT.", changeable=True)
    slave_read: bool = setting(False, "slaveReadEnable", BOOLEAN,
        "A consumer that is far behind reads from a slave.", changeable=True)
    memory_read_percent: int = setting(40, "accessMessageInMemoryMaxRatio", whole(0, 100),
        "Percent of the machine's memory; a consumer that is further behind is sent to a slave.", changeable=True)
    ha_transfer_bytes: int = setting(32 * 1024, "haTransferBatchSize", whole(1, 4 * 1024 * 1024),
        "Bytes of the log that one transfer to a slave has at most.", changeable=True)
    ha_heartbeat_ms: int = setting(5_000, "haSendHeartbeatInterval", _MS,
        "Milliseconds of silence after which a master or slave sends a heartbeat.", changeable=True)
    ha_silence_ms: int = setting(20_000, "haHousekeepingInterval", _MS,
        "Milliseconds of silence after which a connection between master and slave is closed.", changeable=True)
    ha_secret_path: str = setting("", "haSecretPath", TEXT,
        "The file with a secret that a master and its slaves share; empty: none. Apache's slaves and masters have none.")
    ha_tls: bool | None = setting(None, "tls.ha.enable", BOOLEAN,
        "Master and slaves speak TLS with each other. Without it: if the broker itself accepts nothing but TLS.")

    dledger: bool = setting(False, "enableDLegerCommitLog", BOOLEAN,
        "The broker is a node of a DLedger group: a majority has every message, and elects the master.")
    dledger_group: str = setting("", "dLegerGroup", TEXT, "The name of the group, equal on all nodes; empty: brokerName.")
    dledger_peers: str = setting("", "dLegerPeers", TEXT, "The nodes of the group, as n0-host:port;n1-host:port;n2-host:port.")
    dledger_self_id: str = setting("", "dLegerSelfId", TEXT, "This node among them, such as n0.")
    dledger_preferred: str = setting("", "preferredLeaderId", TEXT, "Nodes that shall lead when they can, as n0;n1.")
    dledger_batch_push: bool = setting(False, "enableBatchPush", BOOLEAN,
        "Push several entries at once to Apache's nodes; equal on all nodes. Between nodes of ours that is always so.")
    dledger_path: str = setting("", "storePathDLedgerCommitLog", TEXT,
        "The directory of the group's log; empty: dledger-ID/data in storePathRootDir.")
    dledger_timings: Timings = setting(DLEDGER_TIMINGS, "dLedgerTimings",  # noqa: RUF009 a row like the others
        one_of({"DLEDGER": DLEDGER_TIMINGS, "FAST": FAST_TIMINGS}),
        "DLEDGER: a new leader after about 8 seconds, as Apache's nodes need it. FAST: below 1 second, for nodes of ours only.")
    dledger_tls: bool | None = setting(None, "tls.dledger.enable", BOOLEAN,
        "The nodes of the group speak TLS with each other; Apache's cannot. Without it: if the broker accepts nothing but TLS.")

    authentication_enabled: bool = setting(False, "authenticationEnabled", BOOLEAN,
        "Every request must be signed by a user that the broker knows.")
    authorization_enabled: bool = setting(False, "authorizationEnabled", BOOLEAN,
        "The rules of its user must allow a request. Needs authenticationEnabled.")
    authorization_compatible: bool = setting(False, "authorizationCompatible", BOOLEAN,
        "Check as little as Apache 5.5.0, which lets every user send 68 codes. Not a key of Apache's.")
    authentication_whitelist: frozenset[int] = setting(frozenset(), "authenticationWhitelist", REQUEST_CODES,
        "Request codes that need no signature.")
    authorization_whitelist: frozenset[int] = setting(frozenset(), "authorizationWhitelist", REQUEST_CODES,
        "Request codes that need no rule.")
    init_user: AccessKeys | None = setting(None, "initAuthenticationUser", INIT_USER,  # noqa: RUF009 a row like the others
        "A Super user, made at start when it does not exist.", secret=True)
    inner_credentials: AccessKeys | None = setting(  # noqa: RUF009 a row like the others
        None, "innerClientAuthenticationCredentials", INNER_CREDENTIALS,
        "What the broker signs its own requests with; made a Super user at start when it does not exist.", secret=True)
    migrate_plain_acl: bool = setting(False, "migrateAuthFromV1Enabled", BOOLEAN,
        "Take users that do not exist yet from plainAclPath, at start.")
    plain_acl_path: str = setting("conf/plain_acl.yml", "plainAclPath", TEXT, "The file of RocketMQ 4's access control.")
    audit_log_path: str = setting("", "authAuditLogPath", TEXT,
        "The audit log of refused and administrative requests; empty: auth_audit.log in storePathRootDir, on loopback only with "
        "authenticationEnabled.")

    auto_create_topic: bool = setting(True, "autoCreateTopicEnable", BOOLEAN,
        "The first message to an unknown topic creates it.", changeable=True)
    auto_create_group: bool = setting(True, "autoCreateSubscriptionGroup", BOOLEAN,
        "The first request of an unknown group creates it.", changeable=True)
    default_topic_queues: int = setting(8, "defaultTopicQueueNums", whole(1, 1024),
        "Queues of TBW102, the template of automatically created topics.", changeable=True)
    max_message_bytes: int = setting(4 * 1024 * 1024, "maxMessageSize", whole(1, 15 * 1024 * 1024),
        "The largest body, in bytes.", changeable=True)
    sync_flush: bool = setting(False, "flushDiskType", _FLUSH, "SYNC_FLUSH: a send is answered when the message is on disk.")
    segment_bytes: int = setting(1024 * 1024 * 1024, "mappedFileSizeCommitLog", _SIZE, "Bytes of a commit log file.")
    queue_file_bytes: int = setting(300_000 * 20, "mappedFileSizeConsumeQueue", whole(20, 2**31 - 1),
        "Bytes of a consume queue file.")
    index_slots: int = setting(5_000_000, "maxHashSlotNum", whole(1, 2**28), "Slots of an index file.")
    index_entries: int = setting(20_000_000, "maxIndexNum", whole(2, 2**28), "Entries of an index file.")
    index_enabled: bool = setting(True, "messageIndexEnable", BOOLEAN, "Index messages by key.")
    flush_interval_ms: int = setting(500, "flushIntervalCommitLog", _MS, "Milliseconds between two flushes.")
    flush_least_pages: int = setting(4, "flushCommitLogLeastPages", whole(0, 2**20),
        "Pages of 4096 bytes; fewer are not flushed before flushCommitLogThoroughInterval.")
    flush_thorough_interval_ms: int = setting(10_000, "flushCommitLogThoroughInterval", _MS,
        "Milliseconds after which everything is flushed.")
    checkpoint_interval_ms: int = setting(1_000, "flushIntervalConsumeQueue", _MS,
        "Milliseconds between two flushes of consume queues, index and checkpoint.")
    reserved_hours: int = setting(72, "fileReservedTime", whole(1, 24 * 3650), "Hours that messages are kept.", changeable=True)
    delete_at_hour: int = setting(4, "deleteWhen", whole(0, 23, digits=2),
        "Hour of the day at which expired files are removed.", changeable=True)
    disk_max_used_percent: int = setting(75, "diskMaxUsedSpaceRatio", _PERCENT,
        "Percent of the disk; above it, expired files are removed at any hour.", changeable=True)
    disk_clean_forcibly_percent: int = setting(85, "diskSpaceCleanForciblyRatio", _PERCENT,
        "Percent of the disk; above it, the oldest files are removed, expired or not.", changeable=True)
    disk_warning_percent: int = setting(90, "diskSpaceWarningLevelRatio", _PERCENT,
        "Percent of the disk; above it, messages are refused.", changeable=True)
    scrub_bytes_per_second: int = setting(4 * 1024 * 1024, "scrubBytesPerSecond", whole(0, 2**40),
        "Bytes of the log that are read again and checked each second; 0 stops that.", changeable=True)
    delay_levels: str = setting(DELAY_LEVELS, "messageDelayLevel", TEXT, "The delay levels; the first is level 1.")

    timers_enabled: bool = setting(True, "timerWheelEnable", BOOLEAN, "Accept timed messages; false refuses them.")
    timer_delay_sec_max: int = setting(3 * 24 * 3600, "timerMaxDelaySec", whole(1, 2**31 - 1),
        "The longest delay of a timed message, in seconds.", changeable=True)
    timer_precision_ms: int = setting(1_000, "timerPrecisionMs", whole(10, 3_000), "Milliseconds of a slot of the timer wheel.")
    timer_roll_window_slots: int = setting(2 * 24 * 3600, "timerRollWindowSlot", whole(0, 2**31 - 1),
        "Slots; a message that is due later is stored again in between.", changeable=True)
    timer_wheel_slots: int = setting(7 * 24 * 3600, "timerWheelSlots", whole(120, 7 * 24 * 3600),
        "Slots of the timer wheel; Apache's broker reads only a wheel of the default size.")
    timer_slot_messages_max: int = setting(2**31 - 1, "timerCongestNumEachSlot", whole(1, 2**31 - 1),
        "Messages in one slot of the timer wheel; more are refused.", changeable=True)
    timer_flush_interval_ms: int = setting(1_000, "timerFlushIntervalMs", _MS,
        "Milliseconds between two saves of the timers' progress.", changeable=True)
    timer_log_file_bytes: int = setting(100 * 1024 * 1024, "mappedFileSizeTimerLog", _SIZE, "Bytes of a timer log file.")
    timer_delete_key_has_topic: bool = setting(False, "appendTopicForTimerDeleteKey", BOOLEAN,
        "A recall also names the topic.", changeable=True)
    recall_enabled: bool = setting(False, "recallMessageEnable", BOOLEAN, "Timed messages may be recalled.", changeable=True)
    recall_when_not_writable: bool = setting(True, "allowRecallWhenBrokerNotWriteable", BOOLEAN,
        "Allow recalls while the broker accepts no messages.", changeable=True)

    reject_transactions: bool = setting(False, "rejectTransactionMessage", BOOLEAN,
        "Refuse transactional messages.", changeable=True)
    transaction_timeout_ms: int = setting(6_000, "transactionTimeOut", _MS,
        "Milliseconds; a younger half message is not checked.", changeable=True)
    transaction_check_interval_ms: int = setting(30_000, "transactionCheckInterval", _MS,
        "Milliseconds between two rounds of checks.", changeable=True)
    transaction_checks_max: int = setting(15, "transactionCheckMax", whole(1, 2**31 - 1),
        "Checks of one half message.", changeable=True)
    transaction_op_bytes_max: int = setting(4096, "transactionOpMsgMaxSize", whole(1, 1024 * 1024),
        "Bytes of an op message: an op message of this size is written at once.", changeable=True)
    transaction_op_interval_ms: int = setting(3_000, "transactionOpBatchInterval", _MS,
        "Milliseconds after which a smaller op message is written.", changeable=True)

    long_polling: bool = setting(True, "longPollingEnable", BOOLEAN, "Pulls wait for messages.", changeable=True)
    short_polling_ms: int = setting(1_000, "shortPollingTimeMills", _MS,
        "Milliseconds that pulls wait without long polling.", changeable=True)
    pull_messages_max: int = setting(32, "maxTransferCountOnMessageInMemory", whole(1, 1024),
        "Messages of one pull.", changeable=True)
    pull_bytes_max: int = setting(256 * 1024, "maxTransferBytesOnMessageInMemory", whole(1024, 16 * 1024 * 1024),
        "Bytes of one pull.", changeable=True)
    property_filter: bool = setting(False, "enablePropertyFilter", BOOLEAN, "Consumers may filter by SQL92.", changeable=True)
    register_interval_ms: int = setting(30_000, "registerNameServerPeriod", whole(10_000, 60_000),
        "Milliseconds between two registrations.", changeable=True)
    register_timeout_ms: int = setting(24_000, "registerBrokerTimeoutMills", _MS,
        "Milliseconds that a nameserver has to answer a registration.")
    offsets_interval_ms: int = setting(5_000, "flushConsumerOffsetInterval", _MS,
        "Milliseconds between two saves of consumer offsets.")
    region_id: str = setting("DefaultRegion", "regionId", WORD, "Stamped on messages for traces.")
    trace_on: bool = setting(True, "traceOn", BOOLEAN, "Tell producers to trace.", changeable=True)
    trace_topic: bool = setting(False, "traceTopicEnable", BOOLEAN,
        "Create the trace topic at start, not with the first trace.")
    trace_topic_name: str = setting(TRACE_TOPIC, "msgTraceTopicName", WORD, "The trace topic that traceTopicEnable creates.")
    store_replies: bool = setting(True, "storeReplyMessageEnable", BOOLEAN, "Store replies in the reply topic.", changeable=True)
    query_max: int = setting(64, "maxMsgsNumBatch", whole(1, 1024), "Messages in the response to a query.", changeable=True)
    query_default_max: int = setting(32, "defaultQueryMaxNum", whole(1, 1024),
        "Messages in the response to a query by unique key.", changeable=True)

    stop_slow_consumers: bool = setting(False, "disableConsumeIfConsumerReadSlowly", BOOLEAN,
        "Stop consumers that read too far behind.", changeable=True)
    slow_consumer_bytes: int = setting(16 * 1024 * 1024 * 1024, "consumerFallbehindThreshold", whole(1, 2**62),
        "Bytes behind the end of the log at which a consumer is stopped.", changeable=True)
    refuse_late: bool = setting(True, "brokerFastFailureEnable", BOOLEAN,
        "Refuse requests that waited longer than the following limits.", changeable=True)
    send_wait_ms_max: int = setting(200, "waitTimeMillsInSendQueue", _MS,
        "Milliseconds that a send may wait.", changeable=True)
    pull_wait_ms_max: int = setting(5_000, "waitTimeMillsInPullQueue", _MS,
        "Milliseconds that a pull may wait.", changeable=True)
    lite_pull_wait_ms_max: int = setting(5_000, "waitTimeMillsInLitePullQueue", _MS,
        "Milliseconds that a lite pull may wait.", changeable=True)
    heartbeat_wait_ms_max: int = setting(31_000, "waitTimeMillsInHeartbeatQueue", _MS,
        "Milliseconds that a heartbeat may wait.", changeable=True)
    end_transaction_wait_ms_max: int = setting(3_000, "waitTimeMillsInTransactionQueue", _MS,
        "Milliseconds that the end of a transaction may wait.", changeable=True)
    append_ms_max: int = setting(1_000, "osPageCacheBusyTimeOutMills", _MS,
        "Milliseconds; after sends that took longer to store, sends are refused for a while.", changeable=True)
    tls_to_nameservers: bool | None = setting(None, "tls.enable", BOOLEAN,
        "Connect to nameservers with TLS. Without it: if the broker itself accepts nothing but TLS.")
    tls_client_certificate: str = setting("", "tls.client.certPath", TEXT,
        "The certificate to show to nameservers; empty: tls.server.certPath and its key.")
    tls_client_key: str = setting("", "tls.client.keyPath", TEXT, "The key of that certificate.")
    tls_client_key_password: str = setting("", "tls.client.keyPassword", TEXT, "The password of that key.")
    tls_client_trusted: str = setting("", "tls.client.trustCertPath", TEXT,
        "The certificates that sign those of nameservers; empty: those that the system trusts.")
    tls_verify_nameservers: bool = setting(True, "tls.client.authServer", BOOLEAN,
        "Verify the certificates and names of nameservers. Apache's default is false.")
    # fmt: on

    def store_config(self) -> StoreConfig:
        return StoreConfig(
            segment_bytes=self.segment_bytes,
            queue_entries_per_file=self.queue_file_bytes // 20,
            index_slots=self.index_slots,
            index_entries=self.index_entries,
            index_enabled=self.index_enabled,
            sync_flush=self.sync_flush or self.dledger,  # a node counts for a majority with what it has on disk
            flush_interval_ms=self.flush_interval_ms,
            flush_least_pages=self.flush_least_pages,
            flush_thorough_interval_ms=self.flush_thorough_interval_ms,
            checkpoint_interval_ms=self.checkpoint_interval_ms,
            reserved_hours=self.reserved_hours,
            delete_at_hour=self.delete_at_hour,
            disk_max_used_percent=self.disk_max_used_percent,
            disk_clean_forcibly_percent=self.disk_clean_forcibly_percent,
            disk_warning_percent=self.disk_warning_percent,
            delay_levels=self.delay_levels,
        )

    def ha_secret(self) -> bytes:
        """Read the secret that master and slaves share; nothing when there is none."""
        if not self.ha_secret_path:
            return b""
        try:
            secret = Path(self.ha_secret_path).read_bytes().strip()
        except OSError as error:
            raise NetError(f"The secret in haSecretPath {self.ha_secret_path} cannot be read: {error.strerror}.") from error
        if not secret:
            raise NetError(f"The file of haSecretPath {self.ha_secret_path} is empty. Write a secret into it.")
        return secret

    def client_tls(self, is_on: bool | None = None) -> ssl.SSLContext | None:
        """Load what connections to nameservers need; None when they are plain. Raise NetError when it cannot be used.

        `is_on` says whether TLS is wanted; by default, the settings say it.
        """
        if is_on is None:
            is_on = self.tls_only if self.tls_to_nameservers is None else self.tls_to_nameservers
        if not is_on:
            return None
        own = (self.tls_client_certificate, self.tls_client_key, self.tls_client_key_password)
        certificate, key, password = own if own[0] else (self.tls_certificate, self.tls_key, self.tls_key_password)
        return client_context(
            certificate, key, password=password, trusted=self.tls_client_trusted, verifies=self.tls_verify_nameservers
        )

    def check(self) -> None:
        MonitoredSettings.check(self)
        self.store_config()
        self._check_paths()
        if self.dledger:
            read_group(self)
            if self.uses_dledger_tls and not self.tls_certificate:
                raise ValueError("tls.dledger.enable needs tls.server.certPath and tls.server.keyPath.")
        else:
            self._check_role()
        if self.advertised_host and is_wildcard(self.advertised_host):
            raise ValueError(
                f"brokerIP1 is {self.advertised_host}, to which no client can connect. Set it to an address of this machine."
            )
        if self.authorization_enabled and not self.authentication_enabled:
            raise ValueError(
                "authorizationEnabled needs authenticationEnabled: without signatures, a client could claim to be any user."
            )
        if self.find_nameservers and not self.namesrv_addr and not self.address_server:
            raise ValueError("fetchNamesrvAddrByAddressServer needs rmqAddressServerDomain, the host of the address server.")

    def _check_role(self) -> None:
        """Refuse a role that contradicts the broker's id: clients send to id 0, and a nameserver tells slaves where id 0 is."""
        if self.role.is_slave and self.broker_id == 0:
            raise ValueError("brokerRole is SLAVE, but brokerId is 0, the master's. Give a slave a brokerId of 1 or more.")
        if not self.role.is_slave and self.broker_id != 0:
            raise ValueError(
                f"brokerId is {self.broker_id}, a slave's, but brokerRole is {self.role}. Set brokerRole=SLAVE, or brokerId=0."
            )
        if self.uses_ha_tls and not self.role.is_slave and not self.tls_certificate:
            raise ValueError("tls.ha.enable needs the certificate and the key of tls.server.certPath and tls.server.keyPath.")
        if self.in_sync_replicas > 1 and self.role is not BrokerRole.SYNC_MASTER:
            raise ValueError(
                f"inSyncReplicas is {self.in_sync_replicas}, but only a SYNC_MASTER waits for slaves, and brokerRole is "
                f"{self.role}. Set brokerRole=SYNC_MASTER, or inSyncReplicas=1."
            )

    def _check_paths(self) -> None:
        """Refuse directories that the store does not use.

        Apache 5.5.0 has no such settings but storePathCommitLog: it keeps queues and index in storePathRootDir, whatever the file
        says. So does this broker, and an administrator learns it here.
        """
        if "," in self.commit_log_path:
            raise ValueError(f"storePathCommitLog is {self.commit_log_path}; this broker keeps the log in one directory.")
        for key, path, folder in (
            ("storePathConsumeQueue", self.consume_queue_path, "consumequeue"),
            ("storePathIndex", self.index_path, "index"),
        ):
            used = Path(self.store_path) / folder
            if path and Path(path).absolute() != used.absolute():
                raise ValueError(f"{key} is {path}, but this broker uses {used}. Remove {key}, or change storePathRootDir.")

    @property
    def uses_ha_tls(self) -> bool:
        """Whether master and slaves speak TLS with each other."""
        return self.tls_only if self.ha_tls is None else self.ha_tls

    @property
    def uses_dledger_tls(self) -> bool:
        """Whether the nodes of a DLedger group speak TLS with each other."""
        return self.tls_only if self.dledger_tls is None else self.dledger_tls

    @property
    def changes_path(self) -> Path:
        return Path(self.config_path) if self.config_path else Path(self.store_path) / "config" / CHANGES_FILE

    @property
    def address(self) -> str:
        host = self.advertised_host or self.host
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"

    @property
    def is_audited(self) -> bool:
        """Whether there is an audit log: with access control, beyond loopback, and where a file is named for it."""
        return self.authentication_enabled or bool(self.audit_log_path) or not is_loopback(self.host)

    @property
    def audit_log_file(self) -> Path:
        return Path(self.audit_log_path or Path(self.store_path) / "auth_audit.log")

    @property
    def nameservers(self) -> list[str]:
        return [address.strip() for address in self.namesrv_addr.split(";") if address.strip()]

    @property
    def address_server_url(self) -> str:
        """The URL that lists the nameservers; empty when namesrvAddr names them, or when nobody is to be asked."""
        if self.namesrv_addr or not self.find_nameservers:
            return ""
        return address_server_url(self.address_server, self.address_server_group)
