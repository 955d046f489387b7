"""The job `audit`: loss, repetition and disorder for each producer and queue, from the sequence stamps of `Producer(stamp=True)`.

`runs` turns columns of messages into runs of consecutive numbers (vectorised, in Spark's tasks), `findings` decides what is
missing, repeated or late from the runs of all tasks, `run_source` reads a topic as runs on Spark, `job` puts them together, and
`presentation` shows the result.
"""
