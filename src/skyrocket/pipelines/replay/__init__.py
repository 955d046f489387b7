"""Sends messages of an archive, a store directory or a topic to a topic, also of another cluster, each once and in order.

job             reads the source with Spark, and gives each task whole queues
selection       which messages: by time, key, tag or SQL condition (pure)
queue_map       which queue of the target gets the messages of a queue of the source (pure)
origin          the properties in which a replayed message keeps its ids, and its place in the source (pure)
pace            the rate limit (pure)
progress_file   how far each queue has come, on disk
queue_replay    sends the messages of one queue, and finds out after a failure what has arrived
replay_task     the work of one Spark task
"""
