"""Brokers in this process, whole or in parts, with clocks, disks and peers that a test controls."""
