"""Messages of a range of a queue, from its broker into Arrow batches: what a task of the source does.

range_reader   the loop: ask, receive, decode, go on after failures
pull_ahead     which pulls are under way, and what their answers make of it (pure)
pull_frames    the requests, written but for two numbers
intake         what a socket gave, and the answers in it
ordinary       the answers that are as expected, taken together (pure; compiled)
connections    sockets to brokers, kept by the process
"""
