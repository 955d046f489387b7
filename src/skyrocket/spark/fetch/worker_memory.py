"""Makes the garbage collection of Spark's Python workers cheaper.

After each task a worker runs a full garbage collection, which visits every object. Most objects belong to modules and live as
long as the process. A collection takes 10 to 20 ms: for a task of a micro-batch, more than everything else. So the first task
that reads in a worker freezes the existing objects, and later collections skip them.
"""

from __future__ import annotations

import gc
import sys
from functools import cache
from typing import Final

_DAEMON: Final = "pyspark.daemon"  # the program whose forks serve many tasks in turn


@cache
def freeze_modules() -> None:
    """Freeze the existing objects, once, in a long-lived worker. Do nothing in any other process."""
    if getattr(sys.modules["__main__"].__spec__, "name", None) == _DAEMON:
        gc.collect()
        gc.freeze()
