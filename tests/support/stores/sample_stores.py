"""Small store directories with messages of many kinds, and helpers that change their bytes."""

from __future__ import annotations

import hashlib
import tarfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from skyrocket.protocol.hosts import pack_host
from skyrocket.protocol.message.properties import encode_properties
from skyrocket.protocol.message.record import MAGIC_V2, Record
from skyrocket.protocol.sysflag import TRANSACTION_PREPARED
from skyrocket.store.config import StoreConfig
from skyrocket.store.message import append_request_of
from skyrocket.store.message_store import MessageStore
from tests.support.golden import GOLDEN

SMALL = StoreConfig(segment_bytes=16 * 1024, queue_entries_per_file=20, index_slots=100, index_entries=400)
GOLDEN_CONFIG = StoreConfig(segment_bytes=1024 * 1024, queue_entries_per_file=300, index_slots=1000, index_entries=4000)
NOW_MS = 1_794_725_517_342
V4 = pack_host("127.0.0.1", 10911)
V6 = pack_host("2001:db8::7", 10911)


def sample_record(number: int) -> Record:
    """Make a record. Every seventh has IPv6 hosts, every fifth the second magic, every ninth no properties."""
    properties = {
        "UNIQ_KEY": f"7F000001{number:024X}",
        "KEYS": f"key-{number} shared-{number % 3}",
        "TAGS": f"Tag{number % 4}",
        "naïve": "größe 中 😀",
    }
    if number % 4 == 3:
        del properties["KEYS"], properties["TAGS"]
    return Record(
        topic=f"topic-{number % 3}",
        body=bytes([number % 256]) * (number * 37 % 700),
        properties=b"" if number % 9 == 8 else encode_properties(properties),
        queue_id=number % 2,
        flag=number,
        sys_flag=TRANSACTION_PREPARED if number % 11 == 10 else 0,
        born_timestamp=NOW_MS - 5,
        born_host=V6 if number % 7 == 1 else V4,
        store_host=V6 if number % 7 in (1, 2) else V4,
        reconsume_times=number % 3,
        magic=MAGIC_V2 if number % 5 == 4 else Record("", b"").magic,
    )


def write_store(
    directory: Path, records: Iterable[Record], config: StoreConfig = SMALL, *, at_once: int = 4, close: bool = True
) -> MessageStore:
    """Store records, `at_once` in a millisecond, some of them as one append."""
    store = MessageStore(directory, config)
    store.open()
    messages = [append_request_of(record) for record in records]
    for turn, first in enumerate(range(0, len(messages), at_once)):
        store.append(messages[first : first + at_once], NOW_MS + turn * 700)
    if close:
        store.close()
    return store


def sample_store(directory: Path, count: int = 150) -> Path:
    """Make a cleanly closed store with several segments, queue files and tags."""
    write_store(directory, map(sample_record, range(count)))
    return directory


def golden_store(directory: Path) -> Path:
    """Unpack the store that Apache wrote, without the huge files that no test reads."""
    with tarfile.open(GOLDEN / "store.tar.xz") as archive:
        members = [
            member for member in archive if "timer" not in member.name.rpartition("/")[2] and "timerlog" not in member.name
        ]
        archive.extractall(directory, members, filter="data")
    return directory


def flip(path: Path, at: int, bit: int = 0) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        (byte,) = file.read(1)
        file.seek(at)
        file.write(bytes([byte ^ 1 << bit]))


def overwrite(path: Path, at: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


def fingerprint(directory: Path, only: Sequence[str] = ("",)) -> dict[str, tuple[int, int, str]]:
    """Return size, modification time and content of every file and directory."""
    found: dict[str, tuple[int, int, str]] = {}
    for path in sorted(directory.rglob("*")):
        name = str(path.relative_to(directory))
        if name.startswith(tuple(only)):
            status = path.stat()
            content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
            found[name] = (status.st_size, status.st_mtime_ns, content)
    return found
