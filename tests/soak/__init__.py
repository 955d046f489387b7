"""A soak: every workload and every fault at once, against real processes of ours, for as long as one likes.

    make soak                              twenty minutes
    python -m tests.soak --seconds 60      as long as you say; --seed repeats the choices of a run

A nameserver and two brokers with sync flush run as processes. Nothing that was acknowledged may be lost, nothing may be delivered
twice beyond the rules of at least once, and loop pauses, descriptors and memory stay within their bounds. A report says so.

soak                 one run: start, work, settle, check, report
clock                how long the run lasts, and what happened when
ledger               what was acknowledged and what was delivered, and the rules between the two
processes            the nameserver and the brokers
broker_process       the program of a broker: its disk can be made full or slow, and its loop is watched
faulty_disk          that disk
loop_probe           how long the broker's event loop was blocked, and by what
vital_signs          memory and descriptors of each process
report               the result as text and as JSON

messages, transactions, delays, queries, administration, short_lived_topics, strangers, faults        one workload each
"""
