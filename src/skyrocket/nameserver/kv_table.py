"""Keys and values by namespace, as in Apache's nameserver. The namespace ORDER_TOPIC_CONFIG holds the order configuration.

A table is immutable: a change returns a new table, which replaces the old one once it is on disk. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from skyrocket.nameserver.errors import FullError
from skyrocket.nameserver.limits import KV_TEXT_MAX
from skyrocket.protocol.bodies import KVConfigSerializeWrapper
from skyrocket.protocol.fastjson.codec import decode, encode

ORDER_NAMESPACE: Final = "ORDER_TOPIC_CONFIG"


class KvTable:
    def __init__(self, namespaces: Mapping[str, Mapping[str, str]] | None = None) -> None:
        self._namespaces: dict[str, dict[str, str]] = {name: dict(pairs) for name, pairs in (namespaces or {}).items()}

    def get(self, namespace: str, key: str) -> str | None:
        return self._namespaces.get(namespace, {}).get(key)

    def namespace(self, namespace: str) -> dict[str, str] | None:
        """Return the pairs of a namespace. None when it was never written to; empty when all its keys were deleted."""
        pairs = self._namespaces.get(namespace)
        return None if pairs is None else dict(pairs)

    def with_value(self, namespace: str, key: str, value: str) -> KvTable:
        changed = KvTable(self._namespaces)
        changed._namespaces.setdefault(namespace, {})[key] = value
        if changed._text_length() > KV_TEXT_MAX:
            raise FullError(f"All keys and values would have more than {KV_TEXT_MAX} characters.")
        return changed

    def without(self, namespace: str, key: str) -> KvTable:
        changed = KvTable(self._namespaces)
        changed._namespaces.get(namespace, {}).pop(key, None)
        return changed

    def _text_length(self) -> int:
        """Count the characters, and a few for each entry, so that empty entries count too."""
        pairs = [pair for table in self._namespaces.values() for pair in table.items()]
        return sum(len(key) + len(value) + 8 for key, value in pairs) + sum(len(name) + 8 for name in self._namespaces)

    def encode(self) -> bytes:
        """Encode the table as Apache's kvConfig.json."""
        return encode(KVConfigSerializeWrapper(config_table=self._namespaces))


def decode_kv_table(data: bytes) -> KvTable:
    return KvTable(decode(data, KVConfigSerializeWrapper).config_table)
