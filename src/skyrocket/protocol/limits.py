"""The limits of the protocol. Decoders check a limit before they allocate memory for the data that it limits."""

from __future__ import annotations

from typing import Final

FRAME_BYTES_MAX: Final = 16 * 1024 * 1024
"""A whole frame, its length field included; Apache's `com.rocketmq.remoting.frameMaxLength`."""

HEADER_BYTES_MAX: Final = 1024 * 1024
"""A command's header. The format allows 16 MiB; the largest real one (32,767 bytes of properties, all escaped) has 200 KiB."""

PROPERTIES_BYTES_MAX: Final = 32_767
"""The properties of one message. Their length is a signed 16-bit number in the record."""

TOPIC_BYTES_MAX: Final = 127
"""A topic's name. The first record format has one signed byte for its length."""

BODY_BYTES_MAX: Final = 4 * 1024 * 1024
"""A message's body as sent, perhaps compressed: Apache's `maxMessageSize`."""

UNPACKED_BODY_BYTES_MAX: Final = 64 * 1024 * 1024
"""A message's body after decompression. It bounds the memory that a reader needs for one message."""

ZSTD_WINDOW_BYTES_MAX: Final = 128 * 1024 * 1024
"""The window of a zstd body: Java's limit. The memory is reserved, and only used as the body grows."""

BATCH_BYTES_MAX: Final = BODY_BYTES_MAX
"""All messages of one batch. Apache's broker applies `maxMessageSize` to the whole batch."""

RECORD_BYTES_MAX: Final = BODY_BYTES_MAX + 64 * 1024
"""A whole record: body, properties, topic and the fixed fields."""

LENIENT_JSON_BYTES_MAX: Final = 4 * 1024 * 1024
"""A JSON body in fastjson's dialect. It is parsed in Python, at one to three megabytes per second."""

LENIENT_REQUEST_BYTES_MAX: Final = 16 * 1024
"""The same for a request to a server, which serves nobody else meanwhile. Apache's clients send strict JSON to servers."""

JSON_DEPTH_MAX: Final = 64
"""The nesting of a JSON body. Real bodies have five levels."""

JSON_REFERENCED_NODES_MAX: Final = 100_000
"""All values that the references (`$ref`) of one JSON body stand for."""

REGISTRATION_BYTES_MAX: Final = 64 * 1024 * 1024
"""A broker's registration after decompression: 300,000 topics of 200 bytes."""

CONFIG_TEXT_BYTES_MAX: Final = 1024 * 1024
"""The settings of a server as text. Real settings have 15 KiB."""
