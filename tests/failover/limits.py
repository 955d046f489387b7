"""How long the tests of fail-overs run: a sample in `make test`, all of it in `make failover`."""

from __future__ import annotations

import os

SECONDS = float(os.environ.get("SKYROCKET_FAILOVER_S", "0"))  # of kills in each group; 0: two kills, and not in every group
ROUNDS = int(os.environ.get("SKYROCKET_FAILOVER_ROUNDS", "1"))  # of every other scene
IS_LONG = SECONDS > 0
