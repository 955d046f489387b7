"""Turns an Arrow batch of rows into messages, column by column. Pure.

A row that no broker would accept is an error that names the column. A message's properties are one text:

    UNIQ_KEY 0x01 id 0x02 WAIT 0x01 true 0x02 TAGS 0x01 … 0x02 …

Each column makes its piece of this text for all rows at once. A row without a value has an empty piece.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from skyrocket.client.errors import InvalidMessageError
from skyrocket.client.message import is_reserved
from skyrocket.client.session.names import check_topic
from skyrocket.client.session.namespaces import with_namespace
from skyrocket.protocol.limits import PROPERTIES_BYTES_MAX
from skyrocket.protocol.message import properties as p
from skyrocket.spark.errors import ColumnError
from skyrocket.spark.options.sink_options import SinkOptions
from skyrocket.spark.sink.columns import DELAYS

_SEPARATORS: Final = f"[{p.NAME_END}{p.VALUE_END}]"
_SHOWN_CHARACTERS = 60
_TRANSACTION_PROPERTIES: Final = frozenset({p.TRANSACTION_ID, p.TRANSACTION_CHECK_TIMES, p.CHECK_IMMUNITY_TIME})


class SinkRows(NamedTuple):
    """Messages as lists with one item for each row. Topics include the namespace."""

    topics: list[str]
    bodies: list[bytes]
    properties: list[bytes]
    sharding_keys: list[str | None] | None  # None: no row has a key
    delayed: list[bool] | None  # None: no row is delayed


class RowReader:
    """Reads the rows of one task. `columns` maps each column to its index, as `sink_columns` returns it."""

    def __init__(self, columns: Mapping[str, int], options: SinkOptions) -> None:
        self._columns = columns
        self._options = options
        self._wire_topics: dict[str, str] = {}
        pieces = [f"{p.INSTANCE_ID}\x01{options.cluster.namespace}\x02"] if options.cluster.namespace else []
        if options.exactly_once:
            pieces.append(f"{p.TRANSACTION_PREPARED}\x01true\x02{p.PRODUCER_GROUP}\x01{options.wire(options.group)}\x02")
        self._constant = "\x02WAIT\x01true\x02" + "".join(pieces)

    def read(self, batch: Any, ids: Sequence[str]) -> SinkRows:
        """Turn a batch into messages. `ids` are the unique ids of the messages, one for each row."""
        columns = {name: batch.column(place) for name, place in self._columns.items()}
        texts = [name for name in ("tags", "keys", "shardingKey") if name in columns]
        pieces = [_PIECES[name](columns[name]) for name in texts]
        if "properties" in columns:
            pieces.append(self._properties(columns["properties"]))
        delayed, delays = self._delays(columns)
        text = _join(f"{p.UNIQUE_KEY}\x01", pa.array(ids, pa.string()), self._constant, *pieces, *delays)
        longest = _longest(text)
        if longest > PROPERTIES_BYTES_MAX:
            names = " and ".join(f"'{name}'" for name in [*texts, *(["properties"] if "properties" in columns else [])])
            raise ColumnError(
                f"Columns {names} have {longest} bytes in a row. The properties of a message may have {PROPERTIES_BYTES_MAX}."
            )
        sharding = columns.get("shardingKey")
        return SinkRows(
            topics=self._topics(columns.get("topic"), batch.num_rows),
            bodies=self._bodies(columns["body"]),
            properties=text.cast(pa.binary()).to_pylist(),
            sharding_keys=None if sharding is None or sharding.null_count == len(sharding) else _values_or_none(sharding),
            delayed=delayed,
        )

    # --- columns that are not properties

    def _bodies(self, column: Any) -> list[bytes]:
        if column.null_count:
            raise ColumnError("Column 'body' is null in a row. A message needs a body.")
        if pa.types.is_string(column.type):
            column = column.cast(pa.binary())
        lengths = pc.binary_length(column)
        bounds = pc.min_max(lengths).as_py()
        if bounds["min"] == 0:
            raise ColumnError("Column 'body' is empty in a row. Brokers refuse messages without a body.")
        most = self._options.body_bytes_max
        if bounds["max"] is not None and bounds["max"] > most:
            raise ColumnError(f"Column 'body' has {bounds['max']} bytes in a row. Option 'maxBodyBytes' allows {most}.")
        bodies: list[bytes] = column.to_pylist()
        return bodies

    def _topics(self, column: Any, count: int) -> list[str]:
        """Return the topic of each row. Option `topic` overrides the column, as in Spark's Kafka sink."""
        if self._options.topic is not None:
            return [self._wire_topic(self._options.topic)] * count
        if column.null_count:
            raise ColumnError("Column 'topic' is null in a row, and option 'topic' is not set. Give one of them.")
        coded = column.dictionary_encode()
        names = [self._wire_topic(topic) for topic in coded.dictionary.to_pylist()]
        return [names[code] for code in coded.indices.to_pylist()]

    def _wire_topic(self, topic: str) -> str:
        found = self._wire_topics.get(topic)
        if found is None:
            try:
                found = with_namespace(self._options.cluster.namespace, check_topic(topic))
            except InvalidMessageError as error:
                raise ColumnError(f"Column 'topic' is '{topic[:_SHOWN_CHARACTERS]}' in a row: {error}") from error
            self._wire_topics[topic] = found
        return found

    # --- properties

    def _properties(self, column: Any) -> Any:
        names, values = column.keys, column.items
        if values.null_count:
            where = names.filter(pc.is_null(values))[0].as_py()
            raise ColumnError(f"Column 'properties' has a null value for '{where}' in a row. Leave the property out.")
        for name in pc.unique(names).to_pylist():
            if is_reserved(name) or (self._options.exactly_once and name in _TRANSACTION_PROPERTIES):
                raise ColumnError(
                    f"Column 'properties' has '{name}', which RocketMQ reserves. Use another column, such as tags or keys."
                )
            if not name.strip():
                raise ColumnError("Column 'properties' has a property without a name.")
        for texts in (names, values):
            _refuse_separators("properties", texts)
        if len(values) and pc.min(pc.binary_length(pc.utf8_trim_whitespace(values))).as_py() == 0:
            raise ColumnError("Column 'properties' has an empty value, which consumers would drop. Leave the property out.")
        entries = _join(names, "\x01", values, "\x02")
        return pc.fill_null(pc.binary_join(pa.ListArray.from_arrays(column.offsets, entries), ""), "")

    def _delays(self, columns: Mapping[str, Any]) -> tuple[list[bool] | None, list[Any]]:
        """Return which rows are delayed, and the pieces of their properties."""
        found = {name: _DELAY_NUMBERS[name](columns[name]) for name in DELAYS if name in columns}
        if not found:
            return None, []
        has = [pc.is_valid(numbers) for numbers in found.values()]
        delayed = has[0]
        for other, name in zip(has[1:], list(found)[1:], strict=True):
            if pc.any(pc.and_(delayed, other)).as_py():
                raise ColumnError(
                    f"Column '{name}' is set in a row that has another delay, too. Set only one of {', '.join(found)} in a row."
                )
            delayed = pc.or_(delayed, other)
        if not pc.any(delayed).as_py():
            return None, []
        pieces = [_piece(_DELAY_PROPERTIES[name], numbers.cast(pa.string())) for name, numbers in found.items()]
        return delayed.to_pylist(), pieces


# --- pieces of properties


def _join(*parts: Any) -> Any:
    return pc.binary_join_element_wise(*parts, "")


def _piece(name: str, values: Any) -> Any:
    """Return "name 0x01 value 0x02" for each row, and an empty text for a row without a value."""
    return pc.fill_null(_join(f"{name}\x01", values, "\x02"), "")


def _tags(column: Any) -> Any:
    _refuse_separators("tags", column)
    return _piece(p.TAGS, _null_if_blank(column))


def _keys(column: Any) -> Any:
    if pa.types.is_list(column.type):
        each = column.flatten()
        if each.null_count:
            raise ColumnError("Column 'keys' has a null in the list of a row. Leave it out.")
        for wrong in each.filter(pc.match_substring_regex(each, r"\s|^$"))[:1].to_pylist():
            raise ColumnError(f"Column 'keys' has the key {wrong!r}. A key must not be empty or contain spaces.")
        column = pc.binary_join(column, p.KEY_SEPARATOR)
    _refuse_separators("keys", column)
    return _piece(p.KEYS, _null_if_blank(column))


def _sharding(column: Any) -> Any:
    _refuse_separators("shardingKey", column)
    return _piece(p.SHARDING_KEY, _null_if_blank(column))


_PIECES: Final[Mapping[str, Callable[[Any], Any]]] = {"tags": _tags, "keys": _keys, "shardingKey": _sharding}
_DELAY_PROPERTIES: Final = {"delayLevel": p.DELAY_LEVEL, "delayMs": p.TIMER_DELAY_MS, "deliverAt": p.TIMER_DELIVER_MS}


def _null_if_blank(column: Any) -> Any:
    is_blank = pc.equal(pc.utf8_trim_whitespace(column), "")
    return pc.if_else(is_blank, pa.scalar(None, pa.string()), column)


def _values_or_none(column: Any) -> list[str | None]:
    values: list[str | None] = _null_if_blank(column).to_pylist()
    return values


def _refuse_separators(name: str, column: Any) -> None:
    for wrong in column.filter(pc.fill_null(pc.match_substring_regex(column, _SEPARATORS), False))[:1].to_pylist():
        shown = wrong[:_SHOWN_CHARACTERS]
        raise ColumnError(f"Column '{name}' has {shown!r} in a row. It must not contain 0x01 or 0x02, which separate properties.")


def _longest(column: Any) -> int:
    return pc.max(pc.binary_length(column)).as_py() or 0


# --- delays as numbers; null: no delay


def _levels(column: Any) -> Any:
    numbers = column.cast(pa.int64())
    least = pc.min(numbers).as_py()
    if least is not None and least < 0:
        raise ColumnError(f"Column 'delayLevel' is {least} in a row. A delay level is at least 1; use 0 or null for no delay.")
    return pc.if_else(pc.greater(numbers, 0), numbers, pa.scalar(None, pa.int64()))


def _delay_ms(column: Any) -> Any:
    numbers = column.cast(pa.int64())
    least = pc.min(numbers).as_py()
    if least is not None and least < 0:
        raise ColumnError(f"Column 'delayMs' is {least} in a row. It must be at least 0.")
    return pc.if_else(pc.greater(numbers, 0), numbers, pa.scalar(None, pa.int64()))


def _deliver_ms(column: Any) -> Any:
    if pa.types.is_timestamp(column.type):
        column = pc.divide(column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64()), 1_000)
    numbers = column.cast(pa.int64())
    least = pc.min(numbers).as_py()
    if least is not None and least < 0:
        raise ColumnError(f"Column 'deliverAt' is {least} ms since 1970 in a row. It must be at least 0.")
    return numbers


_DELAY_NUMBERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "delayLevel": _levels,
    "delayMs": _delay_ms,
    "deliverAt": _deliver_ms,
}
