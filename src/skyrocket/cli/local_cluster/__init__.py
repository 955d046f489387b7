"""Brokers of one cluster on one machine, each in a process of its own: `skyrocket run --brokers N`.

plan            names, ports and stores of the brokers (pure)
replicas        the same for the nodes of a DLedger group: `skyrocket run --replicas N`
supervisor      their processes: start, start again, stop
"""
