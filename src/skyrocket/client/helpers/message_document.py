"""A received message as a JSON document, for files, pipes and programs in other languages."""

from __future__ import annotations

import base64
from typing import Any

from skyrocket.client.received import Received


def message_document(message: Received) -> dict[str, Any]:
    """Return a message as a JSON document. The field is `body` for UTF-8 text, and `bodyBase64` for other bytes."""
    shown: dict[str, Any] = {
        "topic": message.topic,
        "brokerName": message.broker_name,
        "queueId": message.queue_id,
        "queueOffset": message.queue_offset,
        "msgId": message.message_id,
        "offsetId": message.offset_id,
        "tags": message.tag,
        "keys": message.keys,
        "properties": message.properties,
        "bornTimestamp": message.born_ms,
        "bornHost": message.born_host,
        "storeTimestamp": message.stored_ms,
        "reconsumeTimes": message.reconsume_times,
        "bodyLength": len(message.body),
    }
    return {**shown, **body_document(message.body)}


def body_document(body: bytes) -> dict[str, str]:
    """Return a body as one field of a JSON document: `body` for UTF-8 text, and `bodyBase64` for other bytes."""
    try:
        return {"body": body.decode()}
    except UnicodeDecodeError:
        return {"bodyBase64": base64.b64encode(body).decode()}
