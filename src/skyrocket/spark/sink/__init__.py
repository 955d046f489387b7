"""The sink. `columns`, `rows` and `packing` turn rows into messages.

With at-least-once, `sender` sends them. With exactly-once, `staging` stages them as half messages, and `commit` commits a batch
with the help of `half_messages` and the `ledger`. `writers` is what Spark calls; `task` is the work of one task.
"""
