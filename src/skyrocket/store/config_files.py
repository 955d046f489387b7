"""The files in `config/`: topics, groups, offsets, as Apache's broker reads and writes them.

    topics.json          current content
    topics.json.bak      previous content

Each file is one JSON object in fastjson's dialect; most are indented with tabs. A save writes the new content beside the file,
makes the current content the `.bak`, and puts the new file in its place, each all or nothing. So at every instant at least one of
the two is whole. When a file cannot be read, the `.bak` is used and the caller gets a sentence that says so. The file is kept;
Apache deletes it.

A file may have any size: what can be saved can be loaded. The tables behind the files are bounded.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, Generic, NamedTuple, TypeVar

from msgspec import field

from skyrocket.protocol.bodies import (
    Body,
    ConsumerOffsetManager,
    DelayOffsetSerializeWrapper,
    SubscriptionGroupWrapper,
    TimerMetricsSerializeWrapper,
    TopicConfigSerializeWrapper,
    TransactionMetricsSerializeWrapper,
)
from skyrocket.protocol.bodies.body import Int32, Int64
from skyrocket.protocol.errors import BodyError
from skyrocket.protocol.fastjson.codec import decode_file, encode, encode_pretty
from skyrocket.store.errors import ConfigFileError, store_error
from skyrocket.store.files import Files
from skyrocket.store.table_text import TableChanges, TableText

B = TypeVar("B", bound=Body)


# Bodies that only these files have ------------------------------------------------------------------------------------------


class BloomFilterData(Body):
    bit_pos: tuple[Int32, ...] = ()
    bit_num: Int32 = 0


class ConsumerFilterData(Body):
    """A consumer group's SQL-92 filter on a topic. Times are in milliseconds."""

    consumer_group: str = ""
    topic: str = ""
    expression: str | None = None
    expression_type: str | None = None
    born_time: Int64 = 0
    dead_time: Int64 = 0
    dead: bool = False
    bloom_filter_data: BloomFilterData | None = None
    client_version: Int64 = 0


class FilterDataMapByTopic(Body):
    topic: str = ""
    group_filter_data: dict[str, ConsumerFilterData] = field(default_factory=dict)


class ConsumerFilters(Body):
    filter_data_by_topic: dict[str, FilterDataMapByTopic] = field(default_factory=dict)


class OrderInfo(Body):
    """Messages of a queue that a group popped in order and has not acknowledged yet. Apache uses one-letter names in the file."""

    pop_time: Int64 = 0
    invisible_ms: Int64 | None = field(default=None, name="i")
    offsets: tuple[Int64, ...] = field(default=(), name="o")
    """The first is a queue offset; each other one is the distance from the first."""
    next_visible_times: dict[Int64, Int64] | None = field(default=None, name="ot")
    consumed_counts: dict[Int64, Int32] | None = field(default=None, name="oc")
    last_consume_timestamp: Int64 = field(default=0, name="l")
    acknowledged_bits: Int64 = field(default=0, name="cm")
    attempt_id: str | None = field(default=None, name="a")


class ConsumerOrders(Body):
    """`topic@group` -> queue -> messages that are not acknowledged yet."""

    table: dict[str, dict[Int32, OrderInfo]] = field(default_factory=dict)
    order_info_count: Int32 = 0
    ordered_consumption_level: str = "QUEUE"


# The table of files --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ConfigFile(Generic[B]):
    """One row of the table: a file's name, the type of its content, whether it is indented, and its large tables.

    A file with large tables is indented; `TableText` keeps the entries of these tables from save to save.
    """

    name: str
    content: type[B]
    pretty: bool = True
    tables: tuple[str, ...] = ()  # attributes of the content

    def encode(self, body: B) -> bytes:
        try:
            return encode_pretty(body) if self.pretty else encode(body)
        except BodyError as error:
            raise ConfigFileError(f"The new content of {self.name} cannot be encoded: {error}") from error

    def decode(self, data: bytes) -> B:
        try:
            return decode_file(data, self.content)
        except BodyError as error:
            raise ConfigFileError(f"{self.name} cannot be read: {error}") from error


TOPICS: Final = ConfigFile("topics.json", TopicConfigSerializeWrapper, tables=("topic_config_table",))
SUBSCRIPTION_GROUPS: Final = ConfigFile(
    "subscriptionGroup.json", SubscriptionGroupWrapper, tables=("subscription_group_table", "forbidden_table")
)
CONSUMER_OFFSETS: Final = ConfigFile(
    "consumerOffset.json", ConsumerOffsetManager, tables=("offset_table", "pull_offset_table", "group_topic_map")
)
DELAY_OFFSETS: Final = ConfigFile("delayOffset.json", DelayOffsetSerializeWrapper)
CONSUMER_FILTERS: Final = ConfigFile("consumerFilter.json", ConsumerFilters)
CONSUMER_ORDERS: Final = ConfigFile("consumerOrderInfo.json", ConsumerOrders)
TIMER_METRICS: Final = ConfigFile("timermetrics", TimerMetricsSerializeWrapper, pretty=False)
TRANSACTION_METRICS: Final = ConfigFile("transactionMetrics", TransactionMetricsSerializeWrapper, pretty=False)


# Loading and saving --------------------------------------------------------------------------------------------------


class LoadedConfig(NamedTuple, Generic[B]):
    body: B | None  # None: the file does not exist yet
    problem: str | None = None  # one sentence, when the file could not be read and its `.bak` was used


class ConfigFiles:
    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self._directory = directory
        self._digests: dict[str, bytes] = {}  # of the content of each file that is known to be readable
        self._texts: dict[str, TableText] = {}

    def load(self, file: ConfigFile[B]) -> LoadedConfig[B]:
        """Read a file, or its `.bak`. Raise ConfigFileError when neither can be read."""
        path = f"{self._directory}/{file.name}"
        try:
            body, unreadable = self._try_read(file, path)
            if body is not None:
                return LoadedConfig(body)
            before, unreadable_before = self._try_read(file, f"{path}.bak")
            is_empty = unreadable is not None and not self._files.size(path)
        except OSError as error:
            raise store_error(f"reading {path}", error) from error
        reason = unreadable or "it does not exist"
        if before is not None:
            return LoadedConfig(
                before, f"{path} was not read ({reason}); {file.name}.bak, the content before it, was read instead."
            )
        if unreadable_before is not None:
            raise ConfigFileError(f"Neither {path} nor its .bak can be read: {reason}; {unreadable_before}.")
        if unreadable is None:
            return LoadedConfig(None)
        if is_empty:  # a crash interrupted the first save by Apache: there was no content before
            return LoadedConfig(None, f"{path} is empty, and there is no {file.name}.bak: the file is treated as missing.")
        raise ConfigFileError(f"{path} cannot be read, and it has no .bak: {unreadable}.")

    def _try_read(self, file: ConfigFile[B], path: str) -> tuple[B | None, str | None]:
        """Return the content, or the reason why it cannot be read; neither when the file does not exist."""
        if not self._files.exists(path):
            return None, None
        data = self._files.read(path)
        if not data:
            return None, "it is empty"
        try:
            body = file.decode(data)
        except ConfigFileError as error:
            return None, str(error).rstrip(".")
        if not path.endswith(".bak"):
            self._digests[file.name] = _digest(data)
        return body, None

    def save(self, file: ConfigFile[B], body: B) -> None:
        """Write a file; its new content is durable on return. Unchanged content is not written."""
        data = file.encode(body)
        digest = _digest(data)
        self._learn(file)
        if digest != self._digests.get(file.name):
            self._write(file, (data,), digest)

    def save_changes(self, file: ConfigFile[B], rest: B, changes: TableChanges) -> None:
        """Write a file with large tables; its new content is durable on return.

        `changes` are the entries that changed since the last call, `rest` is the content without the large tables. After an
        error the caller repeats the changes with the next call.
        """
        text = self._texts.setdefault(file.name, TableText(file.tables))
        try:
            text.update(changes)
        except BodyError as error:
            raise ConfigFileError(f"The new content of {file.name} cannot be encoded: {error}") from error
        self._learn(file)
        self._write(file, text.pieces(rest), b"")

    def _learn(self, file: ConfigFile[B]) -> None:
        """Find out whether the current file can be read, unless that is known."""
        if file.name not in self._digests:
            path = f"{self._directory}/{file.name}"
            try:
                self._try_read(file, path)
            except OSError as error:
                raise store_error(f"saving {path}", error) from error

    def _write(self, file: ConfigFile[B], pieces: Iterable[bytes], digest: bytes) -> None:
        path = f"{self._directory}/{file.name}"
        # A file that is missing or damaged does not become the .bak: the one that is there may be the only sound copy.
        backup = f"{path}.bak" if file.name in self._digests else None
        try:
            self._files.replace_with_backup(path, pieces, backup)
        except OSError as error:
            if backup is not None:
                self._digests[file.name] = b""  # the old content or the new one: both can be read
            raise store_error(f"saving {path}", error) from error
        self._digests[file.name] = digest


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=16).digest()
