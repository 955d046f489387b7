"""The files in `config/`: topics, groups, offsets, as Apache's broker reads and writes them.

    topics.json          current content
    topics.json.bak      previous content

Each file is one JSON object in fastjson's dialect; most are indented with tabs. A save first writes the current content to the
`.bak` and then the new content to the file, each all or nothing. So at every instant at least one of the two is whole. When a
file cannot be read, the `.bak` is used and the caller gets a sentence that says so. The file is kept; Apache deletes it.
"""

from __future__ import annotations

from dataclasses import dataclass
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
from skyrocket.protocol.fastjson.codec import decode, encode, encode_pretty
from skyrocket.store.errors import ConfigFileError, store_error
from skyrocket.store.files import Files

CONFIG_FILE_BYTES_MAX: Final = 256 * 1024 * 1024
"""The largest file that is read: room for 900,000 topics of 300 bytes each."""

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
    """One row of the table: a file's name, the type of its content, and whether it is indented."""

    name: str
    content: type[B]
    pretty: bool = True

    def encode(self, body: B) -> bytes:
        try:
            return encode_pretty(body) if self.pretty else encode(body)
        except BodyError as error:
            raise ConfigFileError(f"The new content of {self.name} cannot be encoded: {error}") from error

    def decode(self, data: bytes) -> B:
        try:
            return decode(data, self.content)
        except BodyError as error:
            raise ConfigFileError(f"{self.name} cannot be read: {error}") from error


TOPICS: Final = ConfigFile("topics.json", TopicConfigSerializeWrapper)
SUBSCRIPTION_GROUPS: Final = ConfigFile("subscriptionGroup.json", SubscriptionGroupWrapper)
CONSUMER_OFFSETS: Final = ConfigFile("consumerOffset.json", ConsumerOffsetManager)
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
        self._current: dict[str, bytes] = {}  # content of each file that is known to be readable

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
        size = self._files.size(path)
        if size > CONFIG_FILE_BYTES_MAX:
            return None, f"it has {size} bytes, more than the {CONFIG_FILE_BYTES_MAX} allowed"
        data = self._files.read(path)
        if not data:
            return None, "it is empty"
        try:
            body = file.decode(data)
        except ConfigFileError as error:
            return None, str(error).rstrip(".")
        if not path.endswith(".bak"):
            self._current[file.name] = data
        return body, None

    def save(self, file: ConfigFile[B], body: B) -> None:
        """Write a file; its new content is durable on return. Unchanged content is not written."""
        data = file.encode(body)
        path = f"{self._directory}/{file.name}"
        try:
            if file.name not in self._current:
                self._try_read(file, path)
            before = self._current.get(file.name)
            if data == before:
                return
            if before is not None:  # otherwise the file is missing or damaged, and the .bak must stay
                self._files.replace(f"{path}.bak", before)
            self._files.replace(path, data)
        except OSError as error:
            self._current.pop(file.name, None)
            raise store_error(f"saving {path}", error) from error
        self._current[file.name] = data
