"""Replication: a second copy of the messages on other brokers."""
