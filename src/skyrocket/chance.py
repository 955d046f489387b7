"""Random numbers that spread load and pauses, from a generator of their own. They are no secrets.

Applications and tests seed Python's generator with `random.seed`, and expect the same numbers again. Client and broker run in
their processes, so they draw from this one.
"""

from __future__ import annotations

import os
import random
from typing import Final

CHANCE: Final = random.Random()  # noqa: S311 — no cryptography
os.register_at_fork(after_in_child=CHANCE.seed)  # forked processes draw different numbers, as with Python's generator
