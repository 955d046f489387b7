"""`skyrocket.testing` for synchronous tests."""

from skyrocket.testing.threaded import SyncBroker as LocalBroker

__all__ = ["LocalBroker"]
