"""The numbers that the compiled twins know a record by are those of `protocol`."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest

from skyrocket import compiled
from skyrocket.protocol import hosts, limits, sysflag
from skyrocket.protocol.message import record

FOLDER = Path(compiled.__file__).parent
NUMBER = re.compile(r"^    ([A-Z][A-Z0-9_]*) = (0x[0-9A-Fa-f]+|[0-9]+)\b", re.MULTILINE)
MAGIC = re.compile(r"^cdef unsigned int (MAGIC\w*) = (0x[0-9A-F]+)$", re.MULTILINE)

# The drawing in protocol/message/record.py, field by field: name, format.
FIELDS = [
    ("SIZE", "i"),
    ("MAGIC", "i"),
    ("CRC", "i"),
    ("QUEUE_ID", "i"),
    ("FLAG", "i"),
    ("QUEUE_OFFSET", "q"),
    ("PHYSICAL_OFFSET", "q"),
    ("SYS_FLAG", "i"),
    ("BORN_TIMESTAMP", "q"),
    ("BORN_HOST", f"{hosts.V4_BYTES}s"),
    ("STORE_TIMESTAMP", "q"),
    ("STORE_HOST", f"{hosts.V4_BYTES}s"),
    ("RECONSUME_TIMES", "i"),
    ("TRANSACTION_OFFSET", "q"),
    ("BODY_LENGTH", "i"),
]


def defined_in(path: Path) -> dict[str, int]:
    return {name: int(value, 0) for name, value in NUMBER.findall(path.read_text())}


def expected() -> dict[str, int]:
    formats = [form for _, form in FIELDS]
    assert struct.calcsize(">" + "".join(formats)) == record._LAYOUTS[0].size, "the table above is the layout of protocol"
    at = {f"{name}_AT": struct.calcsize(">" + "".join(formats[:number])) for number, (name, _) in enumerate(FIELDS)}
    flags = ("COMPRESSED", "TRANSACTION_PREPARED", "TRANSACTION_COMMIT", "TRANSACTION_ROLLBACK", "TRANSACTION_MASK")
    return (
        at
        | {name: getattr(sysflag, name) for name in (*flags, "BORN_HOST_V6", "STORE_HOST_V6")}
        | {
            "BODY_AT": record._LAYOUTS[0].size,
            "FIXED_BYTES_MIN": record.FIXED_BYTES_MIN,
            "MAGIC_LAST_AT": at["MAGIC_AT"] + 3,
            "MAGIC_V1_LAST": record.MAGIC & 0xFF,
            "SYS_FLAG_LAST_AT": at["SYS_FLAG_AT"] + 3,
            "TIMESTAMP_BYTES": 8,
            "RECONSUME_TIMES_BYTES": 4,
            "TRANSACTION_OFFSET_BYTES": 8,
            "BODY_LENGTH_BYTES": 4,
            "PROPERTIES_LENGTH_BYTES": 2,
            "V4_BYTES": hosts.V4_BYTES,
            "V6_BYTES": hosts.V6_BYTES,
            "V6_MORE_BYTES": hosts.V6_BYTES - hosts.V4_BYTES,
            "TOPIC_BYTES_MAX": limits.TOPIC_BYTES_MAX,
            "TOPIC_BYTES_MAX_V2": record.TOPIC_BYTES_MAX_V2,
            "PROPERTIES_BYTES_MAX": limits.PROPERTIES_BYTES_MAX,
            "BATCH_BYTES_MAX": limits.BATCH_BYTES_MAX,
            "HOST_BITS": record.HOST_BITS,
        }
    )


def test_every_offset_in_the_twins_is_the_one_in_protocol():
    told = defined_in(FOLDER / "record_layout.pxi")
    assert len(told) > 30
    wanted = expected()
    assert told == {name: wanted[name] for name in told}


def test_the_magics_in_the_twins_are_those_in_protocol():
    told = {name: int(value, 0) for name, value in MAGIC.findall((FOLDER / "record_layout.pxi").read_text())}
    assert told == {"MAGIC": record.MAGIC & 0xFFFF_FFFF, "MAGIC_V2": record.MAGIC_V2 & 0xFFFF_FFFF}


@pytest.mark.parametrize("path", sorted([*FOLDER.glob("*.pyx"), *FOLDER.glob("*.pxi")]), ids=lambda path: path.name)
def test_no_twin_has_its_own_copy_of_an_offset(path: Path):
    if path.name != "record_layout.pxi":
        again = defined_in(path).keys() & defined_in(FOLDER / "record_layout.pxi").keys()
        assert not again, f"{path.name} defines {sorted(again)} again: include record_layout.pxi"
