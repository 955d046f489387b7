"""Every bound of the protocol in one place. A bound is checked before anything is allocated for what it bounds."""

from __future__ import annotations

from typing import Final

FRAME_BYTES_MAX: Final = 16 * 1024 * 1024
"""A whole frame, its length field included; Apache's `com.rocketmq.remoting.frameMaxLength`."""

HEADER_BYTES_MAX: Final = 1024 * 1024
"""A command's header. The wire allows 16 MiB; the largest real one (32,767 bytes of properties, each escaped) is 200 KiB."""

PROPERTIES_BYTES_MAX: Final = 32_767
"""Properties of one message: their length is a signed 16-bit number in the record."""

TOPIC_BYTES_MAX: Final = 127
"""A topic's name; the classic record has one signed byte for its length."""

BODY_BYTES_MAX: Final = 4 * 1024 * 1024
"""A message's body as sent: Apache's `maxMessageSize`."""

UNPACKED_BODY_BYTES_MAX: Final = 64 * 1024 * 1024
"""A message's body after decompression: what a reader is ready to hold for one message."""

ZSTD_WINDOW_BYTES_MAX: Final = 128 * 1024 * 1024
"""How far back a zstd body may refer: what Java's reader allows. It is set aside, and only touched as the body grows."""

BATCH_BYTES_MAX: Final = BODY_BYTES_MAX
"""The messages of one batch together: Apache's broker holds the whole to `maxMessageSize`."""

RECORD_BYTES_MAX: Final = BODY_BYTES_MAX + 64 * 1024
"""A whole record: body, properties, topic and the fixed fields."""

LENIENT_JSON_BYTES_MAX: Final = 4 * 1024 * 1024
"""A JSON body that is not strict JSON: fastjson's dialect is read in Python, at some megabytes a second, and a server waits."""

JSON_DEPTH_MAX: Final = 64
"""Nesting of a JSON body. Real ones have five levels."""

JSON_REFERENCED_NODES_MAX: Final = 100_000
"""Values that the references (`$ref`) of one JSON body may stand for, together."""

REGISTRATION_BYTES_MAX: Final = 64 * 1024 * 1024
"""A broker's registration when unpacked: at 200 bytes a topic, 300,000 topics."""

CONFIG_TEXT_BYTES_MAX: Final = 1024 * 1024
"""The settings of a server as text. Real ones have 15 KiB."""
