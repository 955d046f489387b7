"""Verifies stores, replicas and archives, in parallel on Spark.

parts_source   the Spark source whose tasks verify: one part for each row
store_check    a store directory: the log by segments, then queues, index and the rest
replica_check  a replica's log against its master's: which bytes to compare (pure), and their comparison
archive_check  an archive against its topic: each offset once, with equal bodies
job            the functions for programs, and what they return
presentation   results for programs, terminals and reports (pure)
"""
