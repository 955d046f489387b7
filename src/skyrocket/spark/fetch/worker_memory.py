"""What Spark's Python workers do with memory between tasks, and what it costs.

After each task a worker collects garbage, and for that looks at every object there is: mostly those that modules are made of,
which stay as long as the process does. That takes some 10 to 20 ms, for a task of a micro-batch more than all else. So, once
for each worker, what is there when the first task reads is set aside, and not looked at again.
"""

from __future__ import annotations

import gc
import sys
from functools import cache
from typing import Final

_DAEMON: Final = "pyspark.daemon"  # the program whose forks serve one task after another


@cache
def set_modules_aside() -> None:
    """Nothing happens in a process that is not Spark's: a driver, say, or one that serves a single task."""
    if getattr(sys.modules["__main__"].__spec__, "name", None) == _DAEMON:
        gc.collect()
        gc.freeze()
