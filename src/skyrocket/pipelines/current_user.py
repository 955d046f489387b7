"""Who runs a job, for the records of jobs that change something: messages sent again, a group moved."""

from __future__ import annotations

import getpass
import socket


def current_user() -> str:
    """Return who runs this process and where, such as ann@ops-1."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # a container may run under a number without a name
        name = "unknown"
    return f"{name}@{socket.gethostname()}"
