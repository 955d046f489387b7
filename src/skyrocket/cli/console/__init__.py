"""`skyrocket console`, and the console that `skyrocket run` starts beside its broker."""

from typing import Final

CONSOLE_PORT: Final = 8082
"""Where the console listens by default, as Apache's dashboard does."""
