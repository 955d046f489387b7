"""A job to be killed: streams a topic into another topic, exactly once; otherwise like `stream_to_parquet`.

python -m tests.support.spark.stream_to_topic '{"options": {…}, "sink": {…}, "checkpoint": …}'
"""

from __future__ import annotations

import json
import sys
from typing import Any

from tests.support.spark.stream_to_parquet import main


def to_topic(frame: Any, arguments: dict[str, Any]) -> Any:
    return frame.select("body").writeStream.format("rocketmq").options(**arguments["sink"])


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), to_topic)
