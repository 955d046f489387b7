"""The text of a config file whose large tables change a few entries at a time.

    {                                       rest: the small fields, encoded at each save
    →   "dataVersion":{…},
    →   "topicConfigTable":{                a large table: each entry is encoded when it changes, and kept
    →   →   "orders":{…},
    →   →   "returns":{…}
    →   }
    }

So a save encodes what changed since the last one, however large the table is. The text is written piece by piece: joining
hundreds of megabytes at once would stop every other thread of the process.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

from skyrocket.protocol.bodies import Body
from skyrocket.protocol.fastjson.writer import encode_pretty_entry, encode_pretty_members

TableChanges = dict[str, dict[str, Any]]
"""Changed entries by the attribute of their table. None: the entry was removed."""

ENTRIES_PER_PIECE: Final = 2_000


class TableText:
    def __init__(self, tables: Iterable[str]) -> None:
        """`tables` are the attributes of the file's body that hold large tables."""
        self._entries: dict[str, dict[str, bytes]] = {table: {} for table in tables}

    def update(self, changes: Mapping[str, Mapping[str, Any]]) -> None:
        """Encode changed entries. Raise BodyError, and keep the old ones, when one cannot be encoded."""
        encoded = {
            table: {key: None if value is None else encode_pretty_entry(key, value, depth=2) for key, value in entries.items()}
            for table, entries in changes.items()
        }
        for table, entries in encoded.items():
            known = self._entries[table]
            for key, text in entries.items():
                if text is None:
                    known.pop(key, None)
                else:
                    known[key] = text

    def pieces(self, rest: Body) -> Iterator[bytes]:
        """Return the whole text. `rest` holds the small fields; its large tables are not looked at."""
        before = b"{\n\t"
        for attribute, name, text in encode_pretty_members(rest, leave_out=self._entries.keys()):
            yield before + name
            before = b",\n\t"
            if text is None:
                yield from _table(self._entries[attribute])
            else:
                yield text
        yield b"\n}"


def _table(entries: dict[str, bytes]) -> Iterator[bytes]:
    if not entries:
        yield b"{}"
        return
    before = b"{\n\t\t"
    texts = iter(entries.values())
    while piece := list(islice(texts, ENTRIES_PER_PIECE)):
        yield before + b",\n\t\t".join(piece)
        before = b",\n\t\t"
    yield b"\n\t}"
