"""`skyrocket.testing` for those who do not await."""

from skyrocket.testing.threaded import SyncBroker as LocalBroker

__all__ = ["LocalBroker"]
