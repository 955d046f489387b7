"""Brokers of one cluster on one machine, each in a process of its own: `skyrocket run --brokers N`.

plan            names, ports and stores of the brokers (pure)
supervisor      their processes: start, start again, stop
"""
