"""Rows become messages: an Arrow batch in, bodies and properties out, column by column. Pure.

What no broker would take is refused with a sentence that names the column. A message's properties are one text,

    UNIQ_KEY 0x01 id 0x02 WAIT 0x01 true 0x02 TAGS 0x01 … 0x02 …

and each column writes its piece of all rows' texts at once; a row that has none has an empty piece.
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
_TRANSACTIONS_OWN: Final = frozenset({p.TRANSACTION_ID, p.TRANSACTION_CHECK_TIMES, p.CHECK_IMMUNITY_TIME})


class Rows(NamedTuple):
    """Messages, each in its place of these lists. Topics are names on the wire."""

    topics: list[str]
    bodies: list[bytes]
    properties: list[bytes]
    sharding_keys: list[str | None] | None  # None: no row has one
    delayed: list[bool] | None  # those that must travel alone; None: no row


class RowReader:
    """For one task: `columns` say where each column is, as `sink_columns` found them."""

    def __init__(self, columns: Mapping[str, int], options: SinkOptions) -> None:
        self._columns = columns
        self._options = options
        self._wire_topics: dict[str, str] = {}
        pieces = [f"{p.INSTANCE_ID}\x01{options.cluster.namespace}\x02"] if options.cluster.namespace else []
        if options.exactly_once:
            pieces.append(f"{p.TRANSACTION_PREPARED}\x01true\x02{p.PRODUCER_GROUP}\x01{options.wire(options.group)}\x02")
        self._same = "\x02WAIT\x01true\x02" + "".join(pieces)

    def read(self, batch: Any, ids: Sequence[str]) -> Rows:
        """`ids` are the messages' unique ones, a row each."""
        there = {name: batch.column(place) for name, place in self._columns.items()}
        texts = [name for name in ("tags", "keys", "shardingKey") if name in there]
        pieces = [_PIECES[name](there[name]) for name in texts]
        if "properties" in there:
            pieces.append(self._properties(there["properties"]))
        delayed, delays = self._delays(there)
        text = _joined(f"{p.UNIQUE_KEY}\x01", pa.array(ids, pa.string()), self._same, *pieces, *delays)
        longest = _longest(text)
        if longest > PROPERTIES_BYTES_MAX:
            held = " and ".join(f"'{name}'" for name in [*texts, *(["properties"] if "properties" in there else [])])
            raise ColumnError(
                f"Columns {held} of one row have {longest} bytes together; a message takes {PROPERTIES_BYTES_MAX} of properties."
            )
        sharding = there.get("shardingKey")
        return Rows(
            topics=self._topics(there.get("topic"), batch.num_rows),
            bodies=self._bodies(there["body"]),
            properties=text.cast(pa.binary()).to_pylist(),
            sharding_keys=None if sharding is None or sharding.null_count == len(sharding) else _or_none(sharding),
            delayed=delayed,
        )

    # --- columns that are not properties

    def _bodies(self, column: Any) -> list[bytes]:
        if column.null_count:
            raise ColumnError("Column 'body' is null in a row; a message needs a body.")
        if pa.types.is_string(column.type):
            column = column.cast(pa.binary())
        lengths = pc.binary_length(column)
        bounds = pc.min_max(lengths).as_py()
        if bounds["min"] == 0:
            raise ColumnError("Column 'body' is empty in a row; brokers refuse messages without a body.")
        most = self._options.body_bytes_max
        if bounds["max"] is not None and bounds["max"] > most:
            raise ColumnError(f"Column 'body' has {bounds['max']} bytes in a row; option 'maxBodyBytes' allows {most}.")
        bodies: list[bytes] = column.to_pylist()
        return bodies

    def _topics(self, column: Any, count: int) -> list[str]:
        """The option overrides the column, as in Spark's Kafka sink."""
        if self._options.topic is not None:
            return [self._wire_topic(self._options.topic)] * count
        if column.null_count:
            raise ColumnError("Column 'topic' is null in a row, and option 'topic' does not say where that goes.")
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
            raise ColumnError(f"Column 'properties' has no value for '{where}' in a row.")
        for name in pc.unique(names).to_pylist():
            if is_reserved(name) or (self._options.exactly_once and name in _TRANSACTIONS_OWN):
                raise ColumnError(f"Column 'properties' has '{name}', which is the system's; other columns set what may be set.")
            if not name.strip():
                raise ColumnError("Column 'properties' has a property without a name.")
        for texts in (names, values):
            _refuse_separators("properties", texts)
        if len(values) and pc.min(pc.binary_length(pc.utf8_trim_whitespace(values))).as_py() == 0:
            raise ColumnError("Column 'properties' has an empty value, which readers would drop.")
        entries = _joined(names, "\x01", values, "\x02")
        return pc.fill_null(pc.binary_join(pa.ListArray.from_arrays(column.offsets, entries), ""), "")

    def _delays(self, there: Mapping[str, Any]) -> tuple[list[bool] | None, list[Any]]:
        """Which rows are delayed, and their properties."""
        found = {name: _DELAY_NUMBERS[name](there[name]) for name in DELAYS if name in there}
        if not found:
            return None, []
        has = [pc.is_valid(numbers) for numbers in found.values()]
        delayed = has[0]
        for other, name in zip(has[1:], list(found)[1:], strict=True):
            if pc.any(pc.and_(delayed, other)).as_py():
                raise ColumnError(f"Column '{name}' is set in a row that has another delay; a row has one of {', '.join(found)}.")
            delayed = pc.or_(delayed, other)
        if not pc.any(delayed).as_py():
            return None, []
        pieces = [_piece(_DELAY_PROPERTIES[name], numbers.cast(pa.string())) for name, numbers in found.items()]
        return delayed.to_pylist(), pieces


# --- pieces of properties


def _joined(*parts: Any) -> Any:
    return pc.binary_join_element_wise(*parts, "")


def _piece(name: str, values: Any) -> Any:
    """name 0x01 value 0x02, or nothing where there is no value."""
    return pc.fill_null(_joined(f"{name}\x01", values, "\x02"), "")


def _tags(column: Any) -> Any:
    _refuse_separators("tags", column)
    return _piece(p.TAGS, _none_if_blank(column))


def _keys(column: Any) -> Any:
    if pa.types.is_list(column.type):
        each = column.flatten()
        if each.null_count:
            raise ColumnError("Column 'keys' has a null among the keys of a row.")
        for wrong in each.filter(pc.match_substring_regex(each, r"\s|^$"))[:1].to_pylist():
            raise ColumnError(f"Column 'keys' has the key {wrong!r}: a key has no blanks, and at least one character.")
        column = pc.binary_join(column, p.KEY_SEPARATOR)
    _refuse_separators("keys", column)
    return _piece(p.KEYS, _none_if_blank(column))


def _sharding(column: Any) -> Any:
    _refuse_separators("shardingKey", column)
    return _piece(p.SHARDING_KEY, _none_if_blank(column))


_PIECES: Final[Mapping[str, Callable[[Any], Any]]] = {"tags": _tags, "keys": _keys, "shardingKey": _sharding}
_DELAY_PROPERTIES: Final = {"delayLevel": p.DELAY_LEVEL, "delayMs": p.TIMER_DELAY_MS, "deliverAt": p.TIMER_DELIVER_MS}


def _none_if_blank(column: Any) -> Any:
    is_blank = pc.equal(pc.utf8_trim_whitespace(column), "")
    return pc.if_else(is_blank, pa.scalar(None, pa.string()), column)


def _or_none(column: Any) -> list[str | None]:
    values: list[str | None] = _none_if_blank(column).to_pylist()
    return values


def _refuse_separators(name: str, column: Any) -> None:
    for wrong in column.filter(pc.fill_null(pc.match_substring_regex(column, _SEPARATORS), False))[:1].to_pylist():
        shown = wrong[:_SHOWN_CHARACTERS]
        raise ColumnError(f"Column '{name}' has 0x01 or 0x02 in it, which separate a message's properties: {shown!r}.")


def _longest(column: Any) -> int:
    return pc.max(pc.binary_length(column)).as_py() or 0


# --- delays, as numbers: null where there is none


def _levels(column: Any) -> Any:
    numbers = column.cast(pa.int64())
    least = pc.min(numbers).as_py()
    if least is not None and least < 0:
        raise ColumnError(f"Column 'delayLevel' is {least} in a row; a delay level is 1 or more, 0 or null for none.")
    return pc.if_else(pc.greater(numbers, 0), numbers, pa.scalar(None, pa.int64()))


def _delay_ms(column: Any) -> Any:
    numbers = column.cast(pa.int64())
    least = pc.min(numbers).as_py()
    if least is not None and least < 0:
        raise ColumnError(f"Column 'delayMs' is {least} in a row; it is 0 or more.")
    return pc.if_else(pc.greater(numbers, 0), numbers, pa.scalar(None, pa.int64()))


def _deliver_ms(column: Any) -> Any:
    if pa.types.is_timestamp(column.type):
        column = pc.divide(column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64()), 1_000)
    numbers = column.cast(pa.int64())
    least = pc.min(numbers).as_py()
    if least is not None and least < 0:
        raise ColumnError(f"Column 'deliverAt' is {least} ms since 1970 in a row, which is before that.")
    return numbers


_DELAY_NUMBERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "delayLevel": _levels,
    "delayMs": _delay_ms,
    "deliverAt": _deliver_ms,
}
